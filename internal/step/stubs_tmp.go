package step

func newHTTPProbe(Deps) Check       { return nil }
func newKubeChanges(Deps) Check     { return nil }
func newKubeWorkload(Deps) Check    { return nil }
func newPrometheusQuery(Deps) Check { return nil }
func newKubeRolloutUndo(Deps) Lever { return nil }
func newKubeScale(Deps) Lever       { return nil }
