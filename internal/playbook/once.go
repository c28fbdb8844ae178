package playbook

// toldFields returns the fields of the evidence of a notify state with once.
func toldFields() []Field {
	return []Field{
		{Name: "first", Type: Type{Name: Bool}, Doc: "This run tells it. Otherwise another run told the same text of `once` within the last hour, it is not over, and this one tells nobody."},
		{Name: "run", Type: Type{Name: String}, Doc: "The run that told it first."},
	}
}

// toldKind declares the evidence of a notify state with once. No step has its
// name.
func toldKind() *Kind {
	return &Kind{Name: string(StateNotify), Role: RoleCheck, Out: toldFields()}
}

// toldBy is the evidence of a notify state with once.
func toldBy(s *State) evidenceOf {
	return evidenceOf{state: s.Name, name: s.Name, kind: toldKind()}
}
