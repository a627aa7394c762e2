"""Pages that show a cluster in a browser: what runs, what waits and why, and what would start it.

    cluster.py    what is known of the cluster: one copy for all viewers, kept up to date by watches
    access.py     who may see it: a one-time token, then a cookie; Host and Origin
    pages.py      an address → a page
    drawing.py    positions of what is drawn: bars, timelines, nodes
    server.py     the ASGI application, and the server that runs it

Pages are rendered on the server, and work without JavaScript. With it, a page asks for itself again when the
cluster has changed, and only what differs is replaced (`static/live.js`). Nothing on a page changes the
cluster. Nothing is loaded from another server.

The package sees views and snapshots, not the commands: a page and the terminal say the same.
"""
