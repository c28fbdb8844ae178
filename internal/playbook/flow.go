package playbook

// flow is the graph of a playbook while it is analysed.
type flow struct{}

// analyse refuses graphs that could misbehave.
func (r *reader) analyse() {}
