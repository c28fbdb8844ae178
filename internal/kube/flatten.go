package kube

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/inference-responder/responder/internal/credential"
)

// flatten converts a pod template to paths and values as people compare them:
// containers[vllm].image, containers[vllm].args[--max-num-seqs]. Values of Secrets
// are never part of a template. A literal value of a variable or a flag is redacted
// unless it is known to hold no credential.
func (r *redactor) flatten(t corev1.PodTemplateSpec) map[string]string {
	out := map[string]string{}
	for k, v := range t.Labels {
		if k != appsv1.DefaultDeploymentUniqueLabelKey && k != appsv1.ControllerRevisionHashLabelKey && k != rolloutHash {
			out["labels["+k+"]"] = r.value(k, v)
		}
	}
	for k, v := range t.Annotations {
		out["annotations["+k+"]"] = r.value(k, v)
	}
	for _, c := range t.Spec.InitContainers {
		r.container(out, "initContainers["+c.Name+"]", c)
	}
	for _, c := range t.Spec.Containers {
		r.container(out, "containers["+c.Name+"]", c)
	}
	for _, v := range t.Spec.Volumes {
		out["volumes["+v.Name+"]"] = r.brief(v.VolumeSource)
	}
	// All other fields, one by one, so that no change goes unseen.
	rest := t.Spec
	rest.Containers, rest.InitContainers, rest.Volumes = nil, nil, nil
	r.rest(out, "", rest)
	return out
}

func (r *redactor) container(out map[string]string, path string, c corev1.Container) {
	out[path+".image"] = r.text(c.Image, credential.Redact(c.Image))
	r.flags(out, path+".command", c.Command)
	r.flags(out, path+".args", c.Args)
	for _, e := range c.Env {
		out[path+".env["+e.Name+"]"] = r.env(e)
	}
	for i, e := range c.EnvFrom {
		out[fmt.Sprintf("%s.envFrom[%d]", path, i)] = r.brief(e)
	}
	for name, q := range c.Resources.Limits {
		out[path+".resources.limits["+string(name)+"]"] = q.String()
	}
	for name, q := range c.Resources.Requests {
		out[path+".resources.requests["+string(name)+"]"] = q.String()
	}
	for _, m := range c.VolumeMounts {
		out[path+".volumeMounts["+m.MountPath+"]"] = r.brief(m)
	}
	c.Name, c.Image, c.Command, c.Args, c.Env, c.EnvFrom, c.VolumeMounts = "", "", nil, nil, nil, nil, nil
	c.Resources = corev1.ResourceRequirements{}
	r.rest(out, path+".", c)
}

// rest adds the remaining fields of a struct in short form.
func (r *redactor) rest(out map[string]string, prefix string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("kube: cannot encode: " + err.Error()) // unreachable: these are API types
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		panic("kube: cannot decode: " + err.Error()) // unreachable: they are objects
	}
	for name, raw := range fields {
		text := string(raw)
		var s string
		if json.Unmarshal(raw, &s) == nil {
			text = s
		}
		if text != "" && text != "null" && text != "{}" {
			out[prefix+name] = r.brief(raw)
		}
	}
}

// brief returns a part of a template on one line.
func (r *redactor) brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("kube: cannot encode: " + err.Error()) // unreachable: these are API types
	}
	var fields any
	if err := json.Unmarshal(b, &fields); err != nil {
		panic("kube: cannot decode: " + err.Error()) // unreachable: it was encoded
	}
	if s, ok := fields.(string); ok {
		return r.text(s, shown(s))
	}
	if b, err = json.Marshal(r.fields(fields)); err != nil {
		panic("kube: cannot encode: " + err.Error()) // unreachable: it was decoded
	}
	return short(string(b))
}

// env returns a variable's value or its source.
func (r *redactor) env(e corev1.EnvVar) string {
	from := e.ValueFrom
	switch {
	case from == nil:
		return r.variable(e.Name, e.Value)
	case from.SecretKeyRef != nil:
		return "secret " + from.SecretKeyRef.Name + "/" + from.SecretKeyRef.Key
	case from.ConfigMapKeyRef != nil:
		return "configmap " + from.ConfigMapKeyRef.Name + "/" + from.ConfigMapKeyRef.Key
	case from.FieldRef != nil:
		return "field " + from.FieldRef.FieldPath
	case from.ResourceFieldRef != nil:
		return "resource " + from.ResourceFieldRef.ContainerName + "/" + from.ResourceFieldRef.Resource
	default:
		return r.brief(from)
	}
}

// isSet is the value of a flag without a value: an empty value would mean absent.
const isSet = "(set)"

// flags returns command-line arguments by flag, spelled as they are. Other
// arguments stand under their position among these. The value of a repeated flag
// stands under [2]: in most engines the last one wins.
func (r *redactor) flags(out map[string]string, path string, args []string) {
	positional := 0
	put := func(flag, value string) {
		key := path + "[" + flag + "]"
		for n := 2; ; n++ {
			if _, taken := out[key]; !taken {
				break
			}
			key = path + "[" + flag + "][" + strconv.Itoa(n) + "]"
		}
		out[key] = value
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !isFlag(arg) {
			put(strconv.Itoa(positional), r.argument(arg))
			positional++
			continue
		}
		flag, value, inline := strings.Cut(arg, "=")
		switch {
		case !inline && attached(arg): // mysql -pSECRET: the text is the value, not part of the name
			put(arg[:2], r.argument(arg[2:]))
			continue
		case inline:
		case i+1 < len(args) && !isFlag(args[i+1]):
			i++
			value = args[i]
		default:
			put(flag, isSet)
			continue
		}
		put(flag, r.flag(flag, value))
	}
}

// attached reports whether a flag of one letter has its value attached. -tp and the like
// are names: few letters.
func attached(arg string) bool {
	if len(arg) < 3 || arg[1] == '-' {
		return false
	}
	return len(arg) > 4 || strings.ContainsFunc(arg[1:], func(c rune) bool { return !unicode.IsLetter(c) })
}

// isFlag reports whether a token is a flag, not a value; -1 and one token holding blanks are values.
func isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' || strings.ContainsAny(arg, " \n\t") && !strings.Contains(arg, "=") {
		return false
	}
	_, err := strconv.ParseFloat(arg, 64)
	return err != nil
}
