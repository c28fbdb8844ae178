package policy

import "github.com/inference-responder/responder/internal/executor/machine"

// effectDoc documents an effect of a rule. The reader, the schema and the
// reference are generated from the list below.
type effectDoc struct {
	key    string
	doc    string
	form   schemaObject // of an effect with a single value
	fields []fieldDoc   // of an effect with a mapping
	any    bool         // at least one of the fields is required
}

// fieldDoc documents one field.
type fieldDoc struct {
	name     string
	form     schemaObject
	doc      string
	required bool
}

// language returns the effects in the order of the reference.
func language() []effectDoc {
	who := schemaObject{"type": "string", "pattern": `^((service|node)\.owners|(user|group):[^\s:]+)$`}
	named := schemaObject{"type": "string", "pattern": principalForm.String()}
	return []effectDoc{
		{key: "deny", doc: "The lever is refused, or the gate is not opened. The text is the reason and part of every verdict.", form: text("Why.")},
		{key: "require_approval", doc: "People must approve, whatever the playbook sets. Every rule that asks must be met, and the playbook's own `approve` too.", fields: []fieldDoc{
			{"from", oneOrMore(who), "Who: `user:NAME`, `group:NAME`, `service.owners`, `node.owners`, or a list. `node.owners` are the owners of the pool of the node that the lever changes, by `node_pools` of the configuration; of a node in no pool, and of a lever that changes no node, the service's.", true},
			{"quorum", whole(1, maxQuorum), "Number of distinct people who must approve. Default 1.", false},
			{"within", def("duration"), "The deadline. The shortest of rules and playbook applies.", false},
			{"remind", def("duration"), "Send a reminder after this time.", false},
			{"escalate", list(closed([]string{"after", "to"}, schemaObject{"after": def("duration"), "to": oneOrMore(schemaObject{"type": "string", "pattern": nameForm.String()})})), "Further channels to notify while nobody decides: `{after, to}`, where `to` names configured channels.", false},
			{"strong", truth(), "Count only decisions with strong authentication.", false},
			{"break_glass", oneOrMore(named), "Who may approve alone, in place of everybody (including the playbook's own `approve`), with a reason that is shown prominently. It applies only to people whom every rule that asks names.", false},
			{"break_glass_own", truth(), "They may do so for runs they started. It applies only if every rule that asks sets it. Default: nobody approves their own run.", false},
		}},
		{key: "allow_approvers", doc: "Whom `approve` of a playbook may name beside the owners: `user:NAME`, `group:NAME`, or a list. Without such a rule whoever a playbook names counts only if they are among the owners of the service, or of the node's pool.", form: oneOrMore(named)},
		{key: "max_autonomy", doc: "The highest level: `observe` or `suggest`. The lowest of all rules, configuration, service, playbook and state applies.", form: schemaObject{"enum": []string{"observe", "suggest"}}},
		{key: "merge", doc: "Who merges the pull request of a change that needs one: `people`, or `responder` as soon as no review or check is missing. Without such a rule, or with both, people merge. It does not apply to a change that is pushed.", form: schemaObject{"enum": []string{string(machine.MergePeople), string(machine.MergeResponder)}}},
		{key: "budget", doc: "A limit within a time. `when` selects the levers that the budget limits; it does not narrow what is counted.", fields: []fieldDoc{
			{"levers", whole(1, maxCount), "Levers applied, whatever the outcome. Exactly one of levers and runs is required.", false},
			{"runs", whole(1, maxCount), "Other runs that applied a lever.", false},
			{"per", schemaObject{"enum": []string{"service", "playbook", "all"}}, "Counted on the same service (default), by the same playbook, or overall.", false},
			{"within", def("duration"), "The window of the count, at most 31d.", true},
		}},
		{key: "freeze", doc: "Nothing is changed at these times.", any: true, fields: []fieldDoc{
			{"zone", text("Time zone."), "The time zone of weekly, e.g. `Europe/Berlin`. Required with it.", false},
			{"weekly", list(closed([]string{"from", "to"}, schemaObject{
				"days": oneOrMore(schemaObject{"type": "string"}), "from": text("E.g. fri 16:00, or 16:00 with days."), "to": text("E.g. mon 08:00."),
			})), "`{from: fri 16:00, to: mon 08:00}`, or `{days: [mon, tue], from: \"22:00\", to: \"06:00\"}`; without days, every day. A time that ends before it begins continues into the next day or week.", false},
			{"dates", list(closed([]string{"from", "to"}, schemaObject{"from": schemaObject{"type": "string"}, "to": schemaObject{"type": "string"}})), "`{from: 2026-12-23T00:00:00+01:00, to: 2027-01-02T00:00:00+01:00}`. All times include from and exclude to.", false},
		}},
		{key: "protect", doc: "Nothing is changed in these namespaces.", fields: []fieldDoc{
			{"namespaces", oneOrMore(text("Name or glob.")), "Names or globs (`*`, `?`, `[ab]`) of the service's namespace and of the object that would be changed, and of the pods that a lever on a node acts on.", true},
		}},
		{key: "blast_radius", doc: "What a lever may cost while it is in progress. An unknown effect on capacity is refused.", any: true, fields: []fieldDoc{
			{"min_ready", whole(1, maxCount), "Replicas that stay ready. If fewer are ready to begin with, their number must not decrease.", false},
			{"max_lost_ready", whole(0, maxCount), "Ready replicas that may be lost.", false},
			{"max_lost_percent", schemaObject{"type": "number", "minimum": 0, "maximum": 100}, "The same in percent of the ready ones.", false},
			{"max_lost_tokens_per_second", schemaObject{"type": "number", "minimum": 0}, "Tokens per second of the lost replicas, at their current throughput. Known for vLLM and SGLang, if Prometheus has fresh series of every ready replica. Unknown is refused.", false},
			{"max_out_percent_of_namespace", schemaObject{"type": "number", "minimum": 0, "maximum": 100}, "How much of the replicas of all services in the namespace may be out at the same time, in percent: those that are not ready now, whoever took them, those that other runs take, and those that the lever costs. Asked of levers that cost ready replicas, for each namespace that loses some. Unknown is refused.", false},
			{"max_out_percent_of_cluster", schemaObject{"type": "number", "minimum": 0, "maximum": 100}, "The same of all services of the catalog.", false},
		}},
	}
}

// effects returns the keys of which a rule has exactly one.
func effects() []string {
	var keys []string
	for _, e := range language() {
		keys = append(keys, e.key)
	}
	return keys
}

// fieldsOf returns the fields of an effect.
func fieldsOf(key string) []string {
	var names []string
	for _, e := range language() {
		if e.key != key {
			continue
		}
		for _, f := range e.fields {
			names = append(names, f.name)
		}
	}
	return names
}
