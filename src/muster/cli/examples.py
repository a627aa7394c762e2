"""Examples at the end of `muster VERB --help`. A test parses each with the verb's own options."""

from typing import Final

_EXAMPLES: Final = {
    "run": """
        muster run train.yaml
        muster run train.yaml --gang --queue research
        muster run train.yaml --nodes "4 x cpu=32,memory=256Gi,nvidia.com/gpu=8"
        muster run job.yaml --volume data=./data
        muster run job.yaml --replace
        muster run --gpus 1 --memory 16Gi -- python3 train.py --epochs 3
        muster run train.yaml --copy --env WANDB_API_KEY
        muster run --gang --count 4 --gpus 8 --print -- torchrun train.py
    """,
    "init": """
        muster init
        muster init gang train.yaml
    """,
    "submit": """
        muster submit --name nightly --env-file .env -- python3 train.py
        muster submit train.yaml --gang
        muster submit train.yaml --context prod -n ml
        generate-job | muster submit -
    """,
    "list": """
        muster list
        muster list -n ml --state waiting --state running
        muster list --all -o wide
        muster list --limit 10 --watch
        muster list -o json
    """,
    "get": """
        muster get train-3f9a1c20
        muster get ml/train -o yaml
        muster get sweep --table --failed
        muster get sweep -o csv
    """,
    "why": """
        muster why train
        muster why ml/train -o json
    """,
    "dashboard": """
        muster dashboard
        muster dashboard --port 8080 --context prod --read-only
    """,
    "timeline": """
        muster timeline train
        muster timeline train -o json
    """,
    "logs": """
        muster logs
        muster logs train -f
        muster logs train --group worker --index 3
        muster logs train worker-1-0 --previous
        muster logs train --since 10m --timestamps
        muster logs train --failed --tail 20
    """,
    "cancel": """
        muster cancel train-3f9a1c20
        muster cancel train sweep-7b
        muster cancel -f train.yaml
        muster cancel sweep --all
    """,
    "prune": """
        muster prune
        muster prune --older-than 7d
    """,
    "hold": """
        muster hold train sweep
    """,
    "release": """
        muster release train
    """,
    "requeue": """
        muster requeue train
    """,
    "retry": """
        muster retry sweep
        muster retry sweep-7b3f9a1c --new-code
    """,
    "set": """
        muster set train --priority 10
        muster set train --queue research
    """,
    "check": """
        muster check train.yaml
        muster check jobs/*.yaml
        muster check train.yaml --nodes "2 x cpu=8,memory=32Gi,nvidia.com/gpu=1"
        muster check train.yaml --strict -o json
    """,
    "compile": """
        muster compile training.yaml
        muster compile training.yaml --target volcano --policies policies -o json
    """,
    "schema": """
        muster schema aichor
        muster schema jobset
    """,
    "policy": """
        muster policy test cases.yaml
        muster policy test cases.yaml --policies policies
        muster policy schema
    """,
    "convert": """
        muster convert train.yaml --to volcano
        muster convert train.yaml --to koordinator --scheduler koord-scheduler --strict
        kubectl get jobs,pods -o yaml | muster convert - --to jobset
    """,
    "plan": """
        muster plan train.yaml
        muster plan train.yaml --snapshot cluster.yaml
        muster plan queue.yaml -o json
    """,
    "replay": """
        muster replay KTH-SP2-1996-2.swf.gz --policy easy
        muster replay nodes.csv jobs.csv --report report.html
        muster replay openb_pod_list_default.csv --policy fgd --seeds 42..51 --load 1.3
        muster replay ~/.local/share/muster/journal.jsonl
    """,
    "queues": """
        muster queues
        muster queues -o json
    """,
    "usage": """
        muster usage
        muster usage --by week,user
        muster usage -n ml -o json
    """,
    "history": """
        muster history train
        muster history train -o json
    """,
    "nodes": """
        muster nodes
        muster nodes --context prod
    """,
    "topology": """
        muster topology
        muster topology -o json
    """,
    "scheduler": """
        muster scheduler
        muster scheduler --context prod --scheduler-name muster --listen :8080
    """,
    "controllers": """
        muster controllers
        muster controllers --only gang,podgroup,jobset
    """,
    "fake-nodes": """
        muster fake-nodes "4 x cpu=32,memory=256Gi,nvidia.com/gpu=8" --context test
    """,
    "crds": """
        muster crds
        muster crds --lattice-jobs
    """,
    "hand-back": """
        muster hand-back
    """,
    "up": """
        muster up
        muster up --detach --nodes "8 x cpu=64,memory=512Gi,nvidia.com/gpu=8,runtime=none"
    """,
    "down": """
        muster down
    """,
    "demo": """
        muster demo
    """,
}


def commands(verb: str) -> list[str]:
    """The example commands of a verb."""
    return [line.strip() for line in _EXAMPLES[verb].strip().splitlines()]


def epilog(verb: str) -> str:
    """The end of a verb's help. `\\b` keeps the lines of a paragraph as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands(verb))])
