package policy

import "github.com/inference-responder/responder/internal/executor/machine"

// effectDoc documents an effect of a rule. Reader, schema and reference are all
// made from the list below.
type effectDoc struct {
	key    string
	doc    string
	form   schemaObject // of an effect that is one value
	fields []fieldDoc   // of one that is a mapping
	any    bool         // at least one of the fields is given
}

// fieldDoc documents one field.
type fieldDoc struct {
	name     string
	form     schemaObject
	doc      string
	required bool
}

// language lists the effects in the order of the reference.
func language() []effectDoc {
	who := schemaObject{"type": "string", "pattern": `^(service\.owners|(user|group):[^\s:]+)$`}
	named := schemaObject{"type": "string", "pattern": principalForm.String()}
	return []effectDoc{
		{key: "deny", doc: "The lever is refused, the gate not opened. The text says why, and is part of every verdict.", form: text("Why.")},
		{key: "require_approval", doc: "People have to say yes, whatever the playbook says. Every rule that asks has to be met, and the playbook's own `approve` too.", fields: []fieldDoc{
			{"from", oneOrMore(who), "Who: `user:NAME`, `group:NAME`, `service.owners`, or a list.", true},
			{"quorum", whole(1, maxQuorum), "Distinct people of them. Default 1.", false},
			{"within", def("duration"), "Time they have. The shortest of rules and playbook counts.", false},
			{"remind", def("duration"), "Ask once more after this time.", false},
			{"escalate", list(closed([]string{"after", "to"}, schemaObject{"after": def("duration"), "to": oneOrMore(schemaObject{"type": "string", "pattern": nameForm.String()})})), "Who else is told while nobody decides: `{after, to}`, where `to` names channels of the configuration.", false},
			{"strong", truth(), "Count only doors with strong authentication.", false},
			{"break_glass", oneOrMore(named), "Who may approve alone, in place of everybody (the playbook's own `approve` included), with a reason that is shown loudly. It holds only for those whom every rule that asks names.", false},
			{"break_glass_own", truth(), "They may do so also where they started the run themselves. Holds only if every rule that asks says so. Default: nobody approves a run of their own.", false},
		}},
		{key: "max_autonomy", doc: "The highest level: `observe` or `suggest`. The lowest of all rules, configuration, service, playbook and state counts.", form: schemaObject{"enum": []string{"observe", "suggest"}}},
		{key: "merge", doc: "Who merges the pull request of a change that takes one: `people`, or `responder` as soon as no review or check is missing. Where no rule says, people do, and where rules say both, too. A change that is pushed is not concerned.", form: schemaObject{"enum": []string{string(machine.MergePeople), string(machine.MergeResponder)}}},
		{key: "budget", doc: "No more than so many within a time. What is counted is not narrowed by `when`: that says for which levers the budget is asked.", fields: []fieldDoc{
			{"levers", whole(1, maxCount), "Levers applied, whatever came of them. Exactly one of levers and runs is given.", false},
			{"runs", whole(1, maxCount), "Other runs that applied a lever.", false},
			{"per", schemaObject{"enum": []string{"service", "playbook", "all"}}, "Counted on the same service (default), by the same playbook, or in all.", false},
			{"within", def("duration"), "The time it counts in, at most 31d.", true},
		}},
		{key: "freeze", doc: "Nothing is changed at these times.", any: true, fields: []fieldDoc{
			{"zone", text("Time zone."), "The clocks that weekly means, e.g. `Europe/Berlin`. Required with it.", false},
			{"weekly", list(closed([]string{"from", "to"}, schemaObject{
				"days": oneOrMore(schemaObject{"type": "string"}), "from": text("E.g. fri 16:00, or 16:00 with days."), "to": text("E.g. mon 08:00."),
			})), "`{from: fri 16:00, to: mon 08:00}`, or `{days: [mon, tue], from: \"22:00\", to: \"06:00\"}`; without days, every day. A time that ends before it begins goes on into the next day or week.", false},
			{"dates", list(closed([]string{"from", "to"}, schemaObject{"from": schemaObject{"type": "string"}, "to": schemaObject{"type": "string"}})), "`{from: 2026-12-23T00:00:00+01:00, to: 2027-01-02T00:00:00+01:00}`. In all times from is part of it and to is not.", false},
		}},
		{key: "protect", doc: "Nothing is changed there.", fields: []fieldDoc{
			{"namespaces", oneOrMore(text("Name or glob.")), "Names or globs (`*`, `?`, `[ab]`) of the service's namespace and of the object that would be changed.", true},
		}},
		{key: "blast_radius", doc: "What a lever may cost while it is under way. An unknown effect on capacity is refused.", any: true, fields: []fieldDoc{
			{"min_ready", whole(1, maxCount), "Replicas that stay ready. Where fewer are ready to begin with, it must not become fewer still.", false},
			{"max_lost_ready", whole(0, maxCount), "Ready replicas that may be lost.", false},
			{"max_lost_percent", schemaObject{"type": "number", "minimum": 0, "maximum": 100}, "The same in percent of the ready ones.", false},
			{"max_lost_tokens_per_second", schemaObject{"type": "number", "minimum": 0}, "Tokens per second that go with them, at what each replica yields now. Known for vLLM and SGLang, while Prometheus has fresh series of every ready replica. Unknown is refused.", false},
		}},
	}
}

// effects are the keys of which a rule has exactly one.
func effects() []string {
	var keys []string
	for _, e := range language() {
		keys = append(keys, e.key)
	}
	return keys
}

// fieldsOf are the fields that an effect may have.
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
