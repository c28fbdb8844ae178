package gitops

// inChart reports whether a file is a template of a Helm chart.
func (tr *tree) inChart(p string) bool { return false }

func (tr *tree) fromValues(_ Variable) (*site, error) {
	return nil, notFound("no manifest of %s %s/%s among %d files", tr.target.Kind, tr.target.Namespace, tr.target.Name, len(tr.paths))
}
