"""Pages that show a cluster in a browser: what runs, what waits and why, and what would start it.

    cluster.py    follows the cluster by watches, and tells viewers
    live.py       what is known of the cluster: one copy for all viewers, to which changes are added
    access.py     who may see it: a one-time token, then a cookie; Host and Origin; forms
    sign_in.py    who may see it on a cluster: users with bearer tokens
    reviews.py    whose a token is, and what its user may see: the API server says it
    sight.py      a moment of the cluster as such a user sees it
    changes.py    what can be done with a job
    pages.py      an address → a page
    overview.py, calendar.py, plans.py, replays.py    what some of the pages show
    work.py       answers what takes long in a process with limits (worker.py)
    drawing.py    positions of what is drawn: bars, timelines, nodes
    server.py     the ASGI application, and the server that runs it

Pages are rendered on the server, and work without JavaScript. With it, a page asks for itself again when the
cluster has changed, and only what differs is replaced (`static/live.js`). Nothing is loaded from
another server.

The package sees views and snapshots, not the commands: a page and the terminal say the same.
"""
