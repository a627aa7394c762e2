"""Faults outside of the core: leaders and fences, images, schedules and runs, the embedded API server."""

from collections.abc import Iterator
from typing import Final

from tests.mutants.faults import Fault

#: What is broken, its line of the source, and what that is replaced by.
Change = tuple[str, str, str]


def _faults(invariant: str, file: str, test: str, *changes: Change) -> Iterator[Fault]:
    for name, old, new in changes:
        yield Fault(name, invariant, file, old, new, (f"tests/{test}.py",))


FAULTS: Final = (
    *_faults(
        "notices",
        "app/wiring/notices.py",
        "app/wiring/test_notices",
        (
            "an event that is told again whenever it is seen",
            "if event.key not in known and (len(found) < MOST or",
            "if event.key and (len(found) < MOST or",
        ),
        (
            "an event that is attempted for ever",
            "closed = not trouble or was.attempts >= ATTEMPTS",
            "closed = not trouble",
        ),
    ),
    *_faults(
        "notices",
        "app/wiring/notifying.py",
        "app/wiring/test_notifying",
        (
            "an attempt that is made before it is recorded",
            "                self._write(uid, begun)",
            "                pass",
        ),
        (
            "a host that leaves before the end of a job is told",
            "or any(job.told.over or job.told.holds(now)",
            "or any(job.told.over",
        ),
    ),
    *_faults(
        "notices",
        "app/wiring/sending.py",
        "app/wiring/test_sending",
        (
            "a redirect that is followed to another address",
            "headers=headers, allow_redirects=False",
            "headers=headers, allow_redirects=True",
        ),
        (
            "what a command has forked, left running",
            "            os.killpg(process.pid, signal.SIGKILL)",
            "            os.kill(process.pid, signal.SIGKILL)",
        ),
    ),
    *_faults(
        "devices",
        "controllers/resource_claims.py",
        "controllers/test_resource_claims",
        (
            "a claim of another pod, taken because its annotation says so",
            "made = [each for each in needs.claims.values() if pod_claims.is_made_for(needs.pod, each)]",
            "made = [*needs.claims.values()]",
        ),
        (
            "devices that stay allocated after their last pod",
            "        if not remaining and protected:",
            "        if False:",
        ),
        (
            "a finalizer that is taken from a scheduler which has begun to allocate",
            "    elif protected and meta.deletion_timestamp is not None and not remaining:",
            "    elif protected and not remaining:",
        ),
    ),
    *_faults(
        "devices",
        "embedded/node/claims.py",
        "embedded/node/test_claims",
        (
            "a pod that starts with devices which are reserved for another",
            "if not any(pod_claims.reserves(each, pod) for each in claim.status.reserved_for):",
            "if not claim.status.reserved_for:",
        ),
        (
            "a container that gets the devices of every request of a claim",
            'return not request or device.request.partition("/")[0] == request',
            "return True",
        ),
    ),
    *_faults(
        "devices",
        "embedded/node/device_objects.py",
        "embedded/node/test_claims",
        (
            "other devices under the generation of the earlier ones",
            '"generation": generation + 1}}',
            '"generation": generation}}',
        ),
    ),
    *_faults(
        "devices",
        "api/rules/claims.py",
        "api/rules/test_devices",
        (
            "an allocation that changes under its pods",
            'return errors + check_frozen(obj, old, (*path, "allocation"))',
            "return errors",
        ),
    ),
    *_faults(
        "marks",
        "workloads/convert/pod_groups.py",
        "workloads/test_convert",
        (
            "a queue for which the other dialect has no field, lost in a conversion",
            "        labels[names.QUEUE] = asked.queue",
            "        pass",
        ),
        (
            "a mark that only muster obeys, kept without a word",
            "if key in _OBEYED and to.naming is not _OBEYED[key]:",
            "if False:",
        ),
        (
            "a field that says what another one does, called lost",
            'if key in made["spec"] or key in same or',
            'if key in made["spec"] or',
        ),
        (
            "a field that the other dialect has not, lost without a word",
            'told.append(unit.report(("spec", key), lost, Severity.WARNING))',
            "pass",
        ),
    ),
    *_faults(
        "marks",
        "workloads/convert/__init__.py",
        "workloads/test_convert",
        (
            "pods that describe their gang differently, of which the first one counts",
            "                if text != there.get(key):",
            "                if False:",
        ),
        (
            "stages that ask for different queues as one JobSet, which has the queue of the last",
            "any(one is None or one != said[0] for one in said)",
            "any(one is None for one in said)",
        ),
    ),
    *_faults(
        "marks",
        "workloads/convert/topology.py",
        "workloads/test_convert",
        (
            "a layer that is preferred, required by a node label",
            'strategy="MustGather", pod_count_multiple=0 | 1',
            "pod_count_multiple=0 | 1",
        ),
        (
            "the node label of one of several groups of a gang, a rule of all of them",
            "GROUPS not in _annotations(group) and not any",
            "not any",
        ),
    ),
    *_faults(
        "marks",
        "workloads/convert/jobs.py",
        "workloads/test_convert",
        (
            "the minimum that a Job states of its gang, lost in a conversion",
            'policy = {"gang": {"minCount": count, **rules["schedulingPolicy"]["gang"]}}',
            'policy = {"gang": {"minCount": count}}',
        ),
    ),
    *_faults(
        "marks",
        "api/marks.py",
        "api/test_marks",
        (
            "a value that cannot be read, and of which nothing is said",
            '            raise ValueError(f"{self.key}{said}") from None',
            "            return None",
        ),
        (
            "an annotation that wins over a label",
            "text = mark(meta, self.key)\n        if text is None:",
            "text = meta.annotations.get(self.key, meta.labels.get(self.key))\n        if text is None:",
        ),
    ),
    *_faults(
        "caches",
        "kube/decode.py",
        "kube/test_decode",
        (
            "each pod of a template keeps the template for itself",
            "    return (kind.kept or shared)(found)",
            "    return kind.kept(found) if kind.kept is not None else found",
        ),
    ),
    *_faults(
        "marks",
        "translate/marks.py",
        "translate/test_foreign",
        (
            "pods that another scheduler would start together, started alone",
            "    return Gate(Code.INVALID, found.sentence()) if found is not None else None",
            "    return None",
        ),
    ),
    *_faults(
        "marks",
        "translate/bare.py",
        "translate/test_volcano",
        (
            "a pod that starts alone before its controller has put it into a group",
            "    if name not in world.awaiting or groups.named(pod) is not None:\n        return None",
            "    return None",
        ),
    ),
    *_faults(
        "job files",
        "workloads/volcano/jobset.py",
        "workloads/volcano/test_jobset",
        (
            "a Job of Volcano whose pods start one by one",
            '    if group is None and (mode == "gang" or (mode is None and job.minimum)):',
            '    if group is None and mode == "gang":',
        ),
        (
            "minima of tasks that are lost",
            "    if not minima:",
            "    if minima is not None:",
        ),
    ),
    *_faults(
        "job files",
        "workloads/volcano/policies.py",
        "workloads/volcano/test_policies",
        (
            "a Job that starts once more than its maxRetry",
            "max(0, job.max_retry - 1) if restarts else 0",
            "job.max_retry if restarts else 0",
        ),
        (
            "an eviction that is taken for a failure",
            "    if evicted in _ALONE or _of_jobset(evicted) != _of_jobset(failed):",
            "    if evicted in _ALONE:",
        ),
    ),
    *_faults(
        "job files",
        "app/views/jobs.py",
        "app/views/test_volcano_jobs",
        (
            "a Job of Volcano that has failed and seems to wait",
            "    if state.phase in ENDED:",
            "    if state.phase == ENDED[0]:",
        ),
    ),
    *_faults(
        "marks",
        "translate/podgroup/reading.py",
        "translate/test_foreign",
        (
            "a group some of whose pods are another scheduler's",
            "        if self._world.schedulers is None:\n            return []",
            "        return []",
        ),
    ),
    *_faults(
        "record",
        "controllers/gang.py",
        "controllers/test_gang",
        (
            "a record whose group object came late is not owned by it",
            "    if not observed.source or source.uid in",
            "    if observed.source or source.uid in",
        ),
    ),
    *_faults(
        "leader",
        "runtime/election.py",
        "runtime/test_election",
        (
            "a term that is counted from the answer",
            "            self._renewed_at = max(self._renewed_at, asked)",
            "            self._renewed_at = self._clock.monotonic()",
        ),
        (
            "a leader that acts for the whole duration of its Lease",
            "        return self._renewed_at + self.timing.deadline - self._clock.monotonic()",
            "        return self._renewed_at + self.timing.duration - self._clock.monotonic()",
        ),
        (
            "a Lease that keeps candidates for as long as it says",
            "            patience = min(max(spec.lease_duration_seconds, 1), LONGEST)",
            "            patience = max(spec.lease_duration_seconds, 1)",
        ),
        (
            "a Lease of no duration that is free at once",
            "            patience = min(max(spec.lease_duration_seconds, 1), LONGEST)",
            "            patience = min(max(spec.lease_duration_seconds, 0), LONGEST)",
        ),
        (
            "the creator of a Lease that leads at once",
            "        if self._clock.monotonic() < self._not_before:",
            "        if False:",
        ),
        (
            "a Lease that was deleted and made again is the same",
            "        if new.uid == old.uid and revision(new.resource_version)",
            "        if revision(new.resource_version)",
        ),
        (
            "a Lease from a backup is the same",
            " and revision(new.resource_version) >= revision(old.resource_version):",
            ":",
        ),
        (
            "a record of pods that counts for a later term",
            "    released = not lease.spec.holder_identity and epoch == str(lease.spec.lease_transitions)",
            "    released = not lease.spec.holder_identity",
        ),
        (
            "a record of pods that counts though its Lease was not released",
            "    released = not lease.spec.holder_identity and epoch",
            "    released = epoch",
        ),
        (
            "a leader whose deadline has passed gives the Lease back",
            "        if self.fresh and self._seen is not None:",
            "        if self._seen is not None:",
        ),
    ),
    *_faults(
        "leader",
        "runtime/leader.py",
        "runtime/test_leader",
        (
            "a leader that writes though its term cannot be proven",
            "        if not self.term.fresh():",
            "        if False:",
        ),
        (
            "reports that take the slots of other writes",
            "        async with self._reporting if reports else self._writing:",
            "        async with self._writing:",
        ),
        (
            "a sleep that does not end though the wall clock is set",
            "        return min(max(due - self._now(), 0.0), LONGEST_SLEEP)",
            "        return max(due - self._now(), 0.0)",
        ),
        (
            "a leader on the embedded cluster that fences",
            "        return [] if self.term.sole else self.fencing.first(self._now())",
            "        return self.fencing.first(self._now())",
        ),
    ),
    *_faults(
        "leader",
        "runtime/fencing.py",
        "runtime/test_fencing",
        (
            "a bound pod that needs no fence since it is new",
            "        unbound = isinstance(obj, Pod) and not obj.spec.node_name",
            "        unbound = isinstance(obj, Pod)",
        ),
        (
            "a fence of a pod that counts for another of its name",
            "                if known is None or known.uid != one.metadata.uid:",
            "                if known is None:",
        ),
        (
            "a pod of a plan's name is taken for that of the plan",
            "            if pod is not None and pod.metadata.uid == ref.uid:",
            "            if pod is not None:",
        ),
        (
            "a server that is busy has refused a fence",
            "not isinstance(error, (Conflict, TooManyRequests))",
            "not isinstance(error, Conflict)",
        ),
        (
            "a server that does not answer says something of the object",
            "        if isinstance(error, Unreachable):",
            "        if False:",
        ),
        (
            "owners are not fenced",
            "        if group.owner is not None and group.owner.admission and not group.finished:",
            "        if False:",
        ),
    ),
    *_faults(
        "gates",
        "security/images/verify.py",
        "security/images/test_verify",
        (
            "the entry point of another architecture",
            '(found.get("os"), found.get("architecture")) == platform',
            'found.get("os") == platform[0]',
        ),
        (
            "the entry point of another operating system",
            '(found.get("os"), found.get("architecture")) == platform',
            'found.get("architecture") == platform[1]',
        ),
        (
            "signatures that cannot be read are read without end",
            "                if len(found) + len(problems) >= _MOST:",
            "                if len(found) >= _MOST:",
        ),
        (
            "all signatures are said to be read though one could not",
            "            complete = False",
            "            complete = True",
        ),
        (
            "one authority of a policy that names all",
            '        met = not missing if policy.mode == "all" else len(missing) < len(reasons)',
            "        met = len(missing) < len(reasons)",
        ),
        (
            "a policy that is about other images",
            "    applying = [policy for policy in policies if policy.applies(image.name)]",
            "    applying = list(policies)",
        ),
        (
            "a policy that is only reported denies",
            "    denied = [each for each in unmet if each.enforced]",
            "    denied = list(unmet)",
        ),
    ),
    *_faults(
        "gates",
        "security/images/cosign.py",
        "security/images/test_cosign",
        (
            "an authority that may issue no authorities issues them",
            "        if allowed.path_length is not None and below > allowed.path_length:",
            "        if False:",
        ),
    ),
    *_faults(
        "gates",
        "security/images/cosign.py",
        "security/images/test_verify",
        (
            "a signature of another image",
            "    if signed.digest != digest:",
            "    if not signed.digest:",
        ),
        (
            "an identity from another issuer",
            "    if (issuer := _issuer(leaf)) != authority.issuer:",
            "    if not (issuer := _issuer(leaf)):",
        ),
        (
            "a log's entry of another signature",
            "    if not _about(body, signed):",
            "    if not body:",
        ),
        (
            "a log's entry of the same signature of another message",
            ', _at(spec, "data", "hash", "value")) == (text, hashed)',
            ", hashed) == (text, hashed)",
        ),
    ),
    *_faults(
        "gates",
        "security/images/registry.py",
        "security/images/test_verify",
        (
            "a manifest of another digest",
            "        if is_digest(version) and digest != version:",
            "        if False:",
        ),
        (
            "a blob of another digest",
            "        if _digest(body) != digest:",
            "        if False:",
        ),
        (
            "credentials for a token service of somebody else",
            "        login = credentials if credentials and _same_domain(realm.host, host) else None",
            "        login = credentials",
        ),
        (
            "credentials that are sent along a redirect",
            "            if url.origin() == start.origin() and (token := ",
            "            if (token := ",
        ),
        (
            "a redirect from https to http",
            '        if url.scheme == "https" and onward.scheme == "http":',
            "        if False:",
        ),
    ),
    *_faults(
        "gates",
        "security/images/trust.py",
        "security/images/test_verify",
        (
            "a subject of which a pattern is only the beginning",
            "bool(self.pattern.fullmatch(subject))",
            "bool(self.pattern.match(subject))",
        ),
    ),
    *_faults(
        "gates",
        "security/images/lookups.py",
        "security/images/test_lookups",
        (
            "an image that is not signed yet stays so",
            '    return UNMET if result.unmet else float("inf")',
            '    return float("inf")',
        ),
        (
            "an image is denied though not all signatures could be read",
            "        if not found.image.trusted and not found.complete:",
            "        if False:",
        ),
        (
            "a namespace that takes all attempts",
            "        async with of_both, of_namespace, entry.attempt:",
            "        async with of_both, entry.attempt:",
        ),
    ),
    *_faults(
        "gates",
        "security/images/reference.py",
        "security/images/test_reference",
        (
            "a glob whose parts overlap",
            "    if len(segment) < len(first) + len(last) or not segment.startswith(first)",
            "    if not segment.startswith(first)",
        ),
        ("a glob that is about the beginning of a name", "    return reached[-1]", "    return any(reached)"),
    ),
    *_faults(
        "gates",
        "security/posture.py",
        "security/test_posture",
        ("an audit of many years", "    if until - now > MOST:", "    if False:"),
    ),
    *_faults(
        "gates",
        "compiler/secrets.py",
        "compiler/test_secrets",
        (
            "a Secret whose name another application's may be",
            '    return f"{name}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"',
            '    return f"{name}-secret"',
        ),
        (
            "secrets of several stores in one value",
            "        if len(stores) > 1:",
            "        if False:",
        ),
        (
            "an author's braces are a template",
            "    return _BRACES.sub(lambda match: f'{{{{ \"{match[0]}\" }}}}', value)",
            "    return value",
        ),
    ),
    *_faults(
        "schedules",
        "controllers/cron/decide.py",
        "controllers/cron/test_cron",
        (
            "a run whose deadline is passed begins",
            "    if plan.deadline is not None and (now - due).total_seconds() > plan.deadline:",
            "    if False:",
        ),
        ("a run that is made twice", "    if any(run.at == due for run in runs):", "    if False:"),
        (
            "a run beside one that is active under Forbid",
            '    if active and plan.concurrency == "Forbid":',
            "    if False:",
        ),
        (
            "the run before goes on under Replace",
            '    replaced = active if plan.concurrency == "Replace" else []',
            "    replaced: list[Run] = []",
        ),
        ("a suspended schedule that starts", "    if plan.suspend:", "    if False:"),
        (
            "the newest runs go first",
            "key=lambda run: (run.at, run.name))",
            "key=lambda run: (run.at, run.name), reverse=True)",
        ),
    ),
    *_faults(
        "schedules",
        "controllers/cron/cron_jobs.py",
        "controllers/cron/test_cron",
        (
            "a schedule that begins at its creation again and again",
            "    decision = decide.decide(plan, last or meta.creation_timestamp or now, runs, now)",
            "    decision = decide.decide(plan, meta.creation_timestamp or now, runs, now)",
        ),
        (
            "a run that is replaced is active in the status",
            '        if run.state == "active" and run not in decision.delete',
            '        if run.state == "active"',
        ),
    ),
    *_faults(
        "gates",
        "controllers/batch_grant.py",
        "controllers/test_batch_grant",
        (
            "a grant that is larger than annotations may be",
            "    if len(whole) <= MOST and len(whole) + len(msgspec.json.encode(run)) <= MOST_RUN:",
            "    if len(whole) + len(msgspec.json.encode(run)) <= MOST_RUN:",
        ),
        (
            "the images of a run move with their tags",
            "    status = replace(job.status, images=noted.images, ",
            "    status = replace(job.status, ",
        ),
    ),
    *_faults(
        "gates",
        "controllers/batch_run.py",
        "controllers/test_batch_run",
        (
            "Volcano's pods start with somebody else's ServiceAccount",
            '    return [each for each in support if started and each["kind"] == _LAST]',
            "    return []",
        ),
        (
            "Volcano's pods start before all that they need exists",
            '    return sorted(support, key=lambda each: bool(each["kind"] == _LAST))',
            "    return list(support)",
        ),
        ("a run that is not suspended at first", '        run["spec"]["suspend"] = True', "        pass"),
        (
            "a run that has changed meanwhile is released",
            '{"resourceVersion": meta.resource_version, "annotations"',
            '{"annotations"',
        ),
    ),
    *_faults(
        "embedded",
        "embedded/verbs/eviction.py",
        "embedded/verbs/test_eviction",
        (
            "an eviction below what a budget wants",
            "    if healthy - 1 < wanted:",
            "    if healthy < wanted:",
        ),
        (
            "a budget that cannot be computed allows everything",
            "        wanted = len(counted) + 1",
            "        wanted = 0",
        ),
        (
            "a pod that is not ready goes though its budget lacks pods",
            "    if not _healthy(pod) and (always or healthy >= wanted):",
            "    if not _healthy(pod):",
        ),
        ("one budget of two is asked", "    if len(selecting) > 1:", "    if False:"),
        (
            "a pod that is being deleted counts as healthy",
            '    return "deletionTimestamp" not in pod["metadata"] and any(\n        c["type"] == "Ready"',
            '    return any(\n        c["type"] == "Ready"',
        ),
    ),
    *_faults(
        "embedded",
        "embedded/verbs/admission.py",
        "embedded/verbs/test_registry",
        ("an object of any depth", "    if too_deep(raw, copy):", "    if False:"),
        (
            "an object of another kind than its request",
            '        if obj.get(key) not in (None, "", expected):',
            "        if False:",
        ),
        (
            "nulls that are kept",
            "    return _identified(kind, without_nulls(copy) if nulls else copy)",
            "    return _identified(kind, copy)",
        ),
    ),
    *_faults(
        "volcano",
        "controllers/podgroup/volcano.py",
        "controllers/podgroup/test_volcano",
        ("a refused group whose pods are created", "    if asked(group).refusal or ", "    if "),
        ("a group that runs below its minimum", "        return UNKNOWN", "        return RUNNING"),
    ),
    *_faults(
        "volcano tasks",
        "api/groups/volcano.py",
        "translate/test_volcano",
        (
            "tasks of a PodGroup that has too many",
            " if len(spec.min_task_member) <= volcano.MOST_TASKS else ()",
            "",
        ),
    ),
    *_faults(
        "volcano tasks",
        "translate/podgroup/gates.py",
        "translate/test_volcano",
        (
            "a minimum above what a gang may have",
            "        if wanted < 0 or asked.minimum > MOST_PLACES:",
            "        if wanted < 0:",
        ),
        (
            "minima of tasks in a GangGroup",
            "        if asked.tasks and one.several:",
            "        if False:",
        ),
    ),
    *_faults(
        "groups",
        "api/groups/native.py",
        "translate/test_native",
        (
            "a basic group with a domain, whose pods are taken for gangs of one",
            " and (limits is None or not limits.topology)",
            "",
        ),
    ),
    *_faults(
        "adopted queues",
        "translate/adopted.py",
        "translate/test_adopted",
        (
            "an adopted queue before muster's own",
            "        if (own := self._own.get(name)) is not None:",
            "        if (own := self._own.get(name)) is not None and name not in self._adopted:",
        ),
        (
            "a tenant's quota is a queue of the cluster",
            "        if name and row.adopted_in(meta.namespace, self.adopts):",
            "        if name:",
        ),
        (
            "one of two quotas of a name, whichever",
            "        if not others:",
            "        if True:",
        ),
    ),
    *_faults(
        "names of jobs",
        "app/views/find.py",
        "app/views/test_find",
        ("the oldest of the jobs that match", "return self.found[-1]", "return self.found[0]"),
        ("a prefix taken for the name of a file", "fullmatch(name, len(given))", "match(name, len(given))"),
    ),
    *_faults(
        "failures",
        "app/views/restarts.py",
        "app/views/test_restarts",
        ("a restart without what failed first", '    return f"{verdict}{why}: {which}"', "    return which"),
    ),
    *_faults(
        "names of jobs",
        "cli/steering.py",
        "cli/test_naming",
        # either of the two suffices for a mere prefix
        ("a job ended by a letter", " or not matches.named or not is_run_of(name, going[0])", ""),
        ("a job ended by a date", " or not is_run_of(name, going[0])", ""),
    ),
    *_faults(
        "disk",
        "app/commands/prune.py",
        "app/commands/test_prune",
        (
            "the output of a job that goes on",
            "                if begun is not None and run.created >= begun:",
            "                if False:",
        ),
        ("the output of a pod that has just come", "if each.changed <= before]", "]"),
        ("a full disk whose jobs go first", "    if directories_only:", "    if False:"),
    ),
    *_faults(
        "trials",
        "cli/trial_table.py",
        "app/views/test_trials",
        ("a result that is a formula in a spreadsheet", "if shown.lstrip().startswith(_FORMULA)", "if False"),
    ),
    *_faults(
        "notices",
        "app/wiring/notices.py",
        "app/wiring/test_notifying",
        ("what was told is kept as given up", "if each.closed and each.trouble))", "if each.closed))"),
    ),
    *_faults(
        "schedules",
        "app/views/schedules.py",
        "app/views/test_schedules",
        ("a run that is not in the time zone", "parse(expression, zone)", "parse(expression)"),
    ),
    *_faults(
        "told once",
        "app/wiring/told.py",
        "app/wiring/test_told",
        ("what is told again and again", "        if subject in told:", "        if False:"),
    ),
    *_faults(
        "accounting",
        "app/views/usage.py",
        "app/views/test_usage",
        ("a run that counts only in its first week", "min(end, following) - begin", "end - begin"),
        ("use without a price that costs nothing", "        line.unpriced_use = True", "        pass"),
    ),
    *_faults(
        "accounting",
        "app/records/accounting.py",
        "app/records/test_accounting",
        (
            "the runs of two jobs of one name in one account",
            "before[-1][1].append(run)",
            "before[0][1].append(run)",
        ),
    ),
    *_faults(
        "disk",
        "app/commands/prune.py",
        "app/commands/test_prune",
        (
            "the checkpoints of a job that is kept, which a retry without pods uses",
            "for view in (*staying, *of_ended)]",
            "for view in of_ended]",
        ),
        (
            "what a retry that runs uses",
            "if not used.holds(path)]",
            "]",
        ),
        (
            "what has been retried while the user was asked",
            "found(home, await fetch(client), older_than, now, what)",
            "what",
        ),
        (
            "the output of a pod that no job has",
            "*(p for p in there.pods if not p.terminal)]",
            "]",
        ),
    ),
    *_faults(
        "the job that was seen",
        "app/commands/cancel.py",
        "app/commands/test_cancel",
        (
            "a job that was submitted again is cancelled",
            "uid=uid, resource_version=version, propagation",
            "resource_version=version, propagation",
        ),
        ("a successor of a creator is cancelled", "), reference.uid", '), ""'),
        (
            "a PodGroup stays when its job is cancelled",
            "view.pods, uid=uid, parts=view.marked)",
            "view.pods, uid=uid)",
        ),
    ),
    *_faults(
        "the job that was seen",
        "app/commands/change.py",
        "app/commands/test_change",
        ("a job that was submitted again is changed", '{"uid": uid} if uid else {}', "{}"),
        (
            "a Job is suspended for its PodGroup's gang",
            "job.kind in _OWNERS and job.gangs and not job.marked:",
            "job.kind in _OWNERS and job.gangs:",
        ),
    ),
    *_faults(
        "the job that was seen",
        "app/views/objects.py",
        "app/views/test_objects",
        ("a PodGroup of several jobs is taken for one's", "return users == {job}", "return True"),
        (
            "a PodGroup is taken from the job that it was made for",
            "            users.add(by)",
            "            pass",
        ),
    ),
    *_faults(
        "viewers",
        "app/views/live.py",
        "app/views/test_live",
        (
            "any pod that names a job is shown as its",
            "part.of_pod.get(key) if part is not None else None",
            "part.views[0][1] if part is not None and part.views else None",
        ),
    ),
    *_faults(
        "viewers",
        "dashboard/plans.py",
        "dashboard/test_plans",
        ("a text takes all memory", "total += sum(max(one.count, 0) for", "sum(max(one.count, 0) for"),
    ),
    *_faults(
        "plan",
        "app/plan/proposal.py",
        "app/plan/test_plan",
        (
            "a Job of Volcano is planned beside its pods",
            "if name[1:] in running and name[0] in _MADE_OF_VOLCANO:",
            "if False:",
        ),
    ),
    *_faults(
        "batch jobs",
        "workloads/batch/targets/muster.py",
        "app/wiring/test_batch_site",
        (
            "pods of a BatchJob name a scheduler that is not there",
            "annotate.for_scheduler(template, facts.scheduler)",
            "annotate.for_scheduler(template)",
        ),
    ),
    *_faults(
        "batch jobs",
        "security/requests.py",
        "app/wiring/test_batch_site",
        (
            "muster needs a permit under another name",
            "not in (own, _VOLCANO)",
            "not in (names.SCHEDULER, _VOLCANO)",
        ),
    ),
    *_faults(
        "plan",
        "app/snapshot.py",
        "app/test_snapshot",
        ("a plan without awaitPodGroups", '_names(stated.get(AWAITS, "")),', '_names(""),'),
    ),
    *_faults(
        "the job that was seen",
        "dashboard/pages.py",
        "dashboard/test_server",
        ("a successor is changed on a page", "if changes.identity(view) == identity), None)", "), None)"),
    ),
    *_faults(
        "viewers",
        "dashboard/access.py",
        "dashboard/test_server",
        ("a form without the token of the page", 'form.get(FORM, "").encode()', "self.form.encode()"),
        ("a form of another origin", 'bool(origin) and origin == headers.get("host")', "True"),
    ),
    *_faults(
        "devices",
        "translate/devices/pools.py",
        "translate/devices/test_devices",
        ("half a pool", "each.spec.pool.resource_slice_count != len(found)", "False"),
        ("an older generation", "if each.spec.pool.generation == newest)", ")"),
        (
            "another node says which slices are the newest",
            "own = {node: _complete(of_node)",
            "own = {node: ()",
        ),
        ("a device twice", "return found if len({*names}) == len(names) else ()", "return found"),
    ),
    *_faults(
        "devices",
        "translate/devices/__init__.py",
        "translate/devices/test_devices",
        ("devices without a class", "events(none=self.blind or not self._classes)", "events()"),
        (
            "a class that is gone is still asked",
            "            self._inventory.want(self._wanted())",
            "            pass",
        ),
    ),
    *_faults(
        "devices",
        "translate/devices/inventory.py",
        "translate/devices/test_devices",
        (
            "a claim that cannot be read has no devices",
            "before if new is not None and new.metadata.unreadable else allocated(new)",
            "allocated(new)",
        ),
    ),
    *_faults(
        "devices",
        "translate/devices/kinds.py",
        "translate/devices/test_devices",
        (
            "answers are not told",
            "        self._settled.add(expression)\n        self._stale = True",
            "        self._settled.add(expression)",
        ),
    ),
    *_faults(
        "devices",
        "translate/devices/pods.py",
        "translate/devices/test_devices",
        ("a class that cannot be read has all devices", "if class_.metadata.unreadable:", "if False:"),
    ),
    *_faults(
        "devices",
        "app/wiring/answers.py",
        "app/wiring/test_answers",
        ("nobody is told why an expression selects nothing", "if found.fault:", "if False:"),
    ),
    *_faults(
        "devices",
        "core/world/handlers.py",
        "translate/devices/test_devices",
        (
            "gangs that wait already are not told",
            "                world.hints = hints\n                world.nodes.revision += 1",
            "                world.hints = hints",
        ),
    ),
    *_faults(
        "viewers",
        "dashboard/sight.py",
        "dashboard/test_sight",
        ("jobs of other namespaces on a page", "if view.namespace in self._own]", "]"),
        ("names of others in front of a queue", "self._names.gangs(view.front, self._own)", "view.front"),
    ),
    *_faults(
        "viewers",
        "dashboard/sign_in.py",
        "dashboard/test_sight",
        ("a path is judged without its control characters", 'request.scope["path"]', "request.url.path"),
        ("any name for the host of the pages", "if _name(host) not in self._hosts:", "if False:"),
        ("a token in a cookie that goes to all ports", "value = secrets.token_urlsafe(32)", "value = token"),
    ),
    *_faults(
        "viewers",
        "dashboard/reviews.py",
        "dashboard/test_sight",
        ("a right to pods that shows gangs", " and await self._may(user, kinds.GANG, namespace)", ""),
        ("unknown tokens without a bound", "if self._waiting >= WAITING:", "if False:"),
    ),
    *_faults(
        "devices",
        "translate/devices/selectors.py",
        "translate/devices/test_selectors",
        ("a loop over attributes looks at none", "        return None  # bound", "        pass  # bound"),
        ("a domain that is not there is an error", "asked | of.attributes", "of.attributes"),
        ("a release before its pre-release", "not before, marks", "bool(before), marks"),
    ),
    *_faults(
        "devices",
        "translate/devices/kinds.py",
        "translate/devices/test_kinds",
        (
            "an answer that was never given",
            "known.get((text, kind.seen_by(text)[1]), False)",
            "known.get((text, kind.seen_by(text)[1]), True)",
        ),
        (
            "taints do not tell kinds apart",
            "whole = _KEY([seen, taints, consumes, withheld])",
            "whole = _KEY([seen, consumes, withheld])",
        ),
        ("pools on one node share counters", 'f"{driver}/{len(known) - 1}"', "driver"),
        (
            "half a counter for nothing",
            "math.ceil(quantity.parse(value))",
            "math.floor(quantity.parse(value))",
        ),
        (
            "a device with binding conditions",
            "        if reason := left_out(device):",
            "        if reason := not device:",
        ),
    ),
    *_faults(
        "devices",
        "translate/devices/inventory.py",
        "translate/devices/test_inventory",
        (
            "the devices of a pool that moved",
            "                del self._of_node[node][pool]\n",
            "",
        ),
        (
            "a device that one of its two claims has left",
            "self._taken.subtract(before)",
            "[self._taken.pop(each, None) for each in before]",
        ),
        (
            "nodes keep their kinds when more is looked at",
            "self._stale.update(dict.fromkeys(self._of_node))",
            "pass",
        ),
    ),
    *_faults(
        "devices",
        "app/wiring/selecting.py",
        "app/wiring/test_selecting",
        (
            "a process that was too slow answers the next question",
            "            except TimeoutError:\n                await self.end()",
            "            except TimeoutError:",
        ),
        (
            "devices of the first part alone",
            "            found.holds += some.holds",
            "            found.holds = some.holds",
        ),
    ),
    *_faults(
        "devices",
        "translate/devices/claims.py",
        "translate/devices/test_claims",
        ("adminAccess as any other", "    if one.admin_access:", "    if False:"),
    ),
    *_faults(
        "fields of job files",
        "workloads/outline.py",
        "workloads/test_schemas",
        (
            "a schema that accepts misspelt fields",
            'found["additionalProperties"] = False',
            'found["additionalProperties"] = True',
        ),
        (
            "a schema in which each resource has the fields of all",
            'for kind in kinds["examples"]:',
            "for kind in ():",
        ),
    ),
    *_faults(
        "the job that was seen",
        "cli/python.py",
        "cli/test_python",
        (
            "a Job of a program that cancels what has its name since",
            "if view.resource.metadata.uid != self._uid:",
            "if False:",
        ),
    ),
)
