package jobs

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/credential"
)

// What the pods of a Job may ask for of their node, if the entry of jobs allows it.
const (
	hostNetwork = "host_network"
	hostPID     = "host_pid"
	hostIPC     = "host_ipc"
	hostPath    = "host_path"
	hostPort    = "host_port"
	privileged  = "privileged"
)

// guard refuses what reaches beyond the pods of the Job, unless the entry allows it.
func (m *manifest) guard(job *batchv1.Job) {
	pod, at := job.Spec.Template.Spec, "spec.template.spec"
	m.asks(pod.HostNetwork, hostNetwork, at+".hostNetwork")
	m.asks(pod.HostPID, hostPID, at+".hostPID")
	m.asks(pod.HostIPC, hostIPC, at+".hostIPC")
	for i, v := range pod.Volumes {
		m.asks(v.HostPath != nil, hostPath, fmt.Sprintf("%s.volumes[%d]", at, i))
	}
	if s := pod.SecurityContext; s != nil {
		m.asks(s.WindowsOptions != nil && set(s.WindowsOptions.HostProcess), privileged, at+".securityContext")
		m.asks(len(s.Sysctls) > 0, privileged, at+".securityContext.sysctls")
		m.asks(s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeUnconfined, privileged, at+".securityContext.seccompProfile")
		m.asks(s.AppArmorProfile != nil && s.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined, privileged, at+".securityContext.appArmorProfile")
		m.asks(s.SELinuxOptions != nil, privileged, at+".securityContext.seLinuxOptions")
	}
	for i, c := range pod.InitContainers {
		m.guardContainer(c, fmt.Sprintf("%s.initContainers[%d]", at, i))
	}
	for i, c := range pod.Containers {
		m.guardContainer(c, fmt.Sprintf("%s.containers[%d]", at, i))
	}
	if len(pod.EphemeralContainers) > 0 {
		m.report(at+".ephemeralContainers", "", "cannot be set in a template")
	}
}

func (m *manifest) guardContainer(c corev1.Container, at string) {
	for i, p := range c.Ports {
		m.asks(p.HostPort != 0, hostPort, fmt.Sprintf("%s.ports[%d]", at, i))
	}
	s := c.SecurityContext
	if s == nil {
		return
	}
	at += ".securityContext"
	m.asks(set(s.Privileged), privileged, at+".privileged")
	m.asks(set(s.AllowPrivilegeEscalation), privileged, at+".allowPrivilegeEscalation")
	m.asks(s.Capabilities != nil && len(s.Capabilities.Add) > 0, privileged, at+".capabilities.add")
	m.asks(s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeUnconfined, privileged, at+".seccompProfile")
	m.asks(s.AppArmorProfile != nil && s.AppArmorProfile.Type == corev1.AppArmorProfileTypeUnconfined, privileged, at+".appArmorProfile")
	m.asks(s.SELinuxOptions != nil, privileged, at+".seLinuxOptions")
	m.asks(s.ProcMount != nil && *s.ProcMount == corev1.UnmaskedProcMount, privileged, at+".procMount")
	m.asks(s.WindowsOptions != nil && set(s.WindowsOptions.HostProcess), privileged, at+".windowsOptions")
}

func set(b *bool) bool { return b != nil && *b }

// asks reports what the pods ask for and the entry does not allow.
func (m *manifest) asks(yes bool, what, at string) {
	if yes && !slices.Contains(m.decl.Allow, what) {
		m.report(at, "remove it, or write allow: ["+what+"] in the entry of jobs", "reaches beyond the pod, and the entry does not allow it (%s)", what)
	}
}

// credentials refuses credentials in the manifest: the plan that people approve and the
// journal hold all of it.
func (m *manifest) credentials(list string, containers []corev1.Container) {
	for i, c := range containers {
		at := fmt.Sprintf("spec.template.spec.%s[%d]", list, i)
		for j, e := range c.Env {
			if e.Value != "" && (credential.Named(e.Name) || credential.Redact(e.Value) != e.Value) {
				m.report(fmt.Sprintf("%s.env[%d].value", at, j), "take it from a Secret, with valueFrom.secretKeyRef", "looks like a credential, which everybody who reads the plan would see")
			}
		}
		for j, text := range slices.Concat(c.Command, c.Args) {
			where := fmt.Sprintf("%s.command[%d]", at, j)
			if j >= len(c.Command) {
				where = fmt.Sprintf("%s.args[%d]", at, j-len(c.Command))
			}
			if credential.Redact(text) != text {
				m.report(where, "take it from a Secret, by a variable in env", "looks like a credential, which everybody who reads the plan would see")
			}
		}
	}
}
