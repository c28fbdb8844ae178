package kube

// Marked is a workload that carries a label, with what a service catalog needs
// of it.
type Marked struct {
	Ref         Ref
	Labels      map[string]string
	Annotations map[string]string
	Containers  []Container
}

// Container is one container of a pod template.
type Container struct {
	Name    string
	Image   string
	Command []string
	Args    []string
}
