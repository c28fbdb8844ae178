package kube

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// canaries are secrets of all the kinds that people write into manifests.
// None may come out of anything this package says.
var canaries = []string{
	"hf_canaryCANARYcanaryCANARY0001", "sk-canaryCANARYcanaryCANARY0002", "ghp_canaryCANARYcanaryCANARY0003",
	"eyJjYW5hcnkwMDA0.eyJjYW5hcnkwMDA0.c2lnbmF0dXJl", "canary-0005", "canary-0006", "canary-0007", "canary-0008", "canary-0009", "canary-0010", "canary-0011", "canary-0012", "canary-0013",
}

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "chat", "pod-template-hash": "abc"}, Annotations: map[string]string{"api-token": canaries[4]}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"gpu": "h100"},
			Volumes:      []corev1.Volume{{Name: "models", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "hf-token"}}}},
			InitContainers: []corev1.Container{{
				Name: "pull", Image: "puller:1", Command: []string{"sh", "-c"},
				Args: []string{"pull --token " + canaries[5] + " https://me:" + canaries[6] + "@hub/x && export API_KEY=" + canaries[7] + " && curl -H 'Authorization: Bearer " + canaries[10] + "'"},
			}},
			Containers: []corev1.Container{{
				Name: "vllm", Image: "vllm/vllm-openai:v0.11",
				Args: []string{
					"serve", "meta/llama", "--max-num-seqs", "256", "--max_model_len=8192", "--enable-prefix-caching", "--seed", "-1",
					"--api-key", canaries[8], "--max-num-batched-tokens", "8192", "--tokenizer=meta/llama", "--max-num-seqs=64",
					"--kv-transfer-config", `{"kv_role":"kv_both","auth_token":"` + canaries[9] + `"}`,
				},
				Env: []corev1.EnvVar{
					{Name: "HF_TOKEN", Value: canaries[0]},
					{Name: "HARMLESS", Value: canaries[1]},
					{Name: "ALSO", Value: "x " + canaries[2]},
					{Name: "JWT", Value: canaries[3]},
					{Name: "OPENAI_KEY", Value: canaries[11]},
					{Name: "HF_PAT", Value: canaries[12]},
					{Name: "VLLM_LOGGING_LEVEL", Value: "INFO"},
					{Name: "FROM", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "hub"}, Key: "token"}}},
				},
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
			}},
		},
	}
}

func TestFlatten(t *testing.T) {
	want := map[string]string{
		"labels[app]":                                       "chat",
		"annotations[api-token]":                            "(redacted #1)",
		"nodeSelector":                                      `{"gpu":"h100"}`,
		"volumes[models]":                                   `{"secret":{"secretName":"hf-token"}}`,
		"initContainers[pull].image":                        "puller:1",
		"initContainers[pull].command[0]":                   "sh",
		"initContainers[pull].command[-c]":                  "(set)",
		"containers[vllm].image":                            "vllm/vllm-openai:v0.11",
		"containers[vllm].args[0]":                          "serve",
		"containers[vllm].args[1]":                          "meta/llama",
		"containers[vllm].args[--max-num-seqs]":             "256",
		"containers[vllm].args[--max-num-seqs][2]":          "64",
		"containers[vllm].args[--max_model_len]":            "8192",
		"containers[vllm].args[--enable-prefix-caching]":    "(set)",
		"containers[vllm].args[--seed]":                     "-1",
		"containers[vllm].args[--api-key]":                  "(redacted #3)",
		"containers[vllm].args[--max-num-batched-tokens]":   "8192",
		"containers[vllm].args[--tokenizer]":                "meta/llama",
		"containers[vllm].args[--kv-transfer-config]":       `{"kv_role":"kv_both","auth_token":"(redacted)"} (redacted #4)`,
		"containers[vllm].env[HF_TOKEN]":                    "(redacted #5)",
		"containers[vllm].env[HARMLESS]":                    "(redacted #6)",
		"containers[vllm].env[ALSO]":                        "(redacted #7)",
		"containers[vllm].env[JWT]":                         "(redacted #8)",
		"containers[vllm].env[OPENAI_KEY]":                  "(redacted #9)",
		"containers[vllm].env[HF_PAT]":                      "(redacted #10)",
		"containers[vllm].env[VLLM_LOGGING_LEVEL]":          "INFO",
		"containers[vllm].env[FROM]":                        "secret hub/token",
		"containers[vllm].resources.limits[nvidia.com/gpu]": "2",
	}
	got := (&redactor{}).flatten(template())
	shell := got["initContainers[pull].args[0]"]
	delete(got, "initContainers[pull].args[0]")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if !strings.Contains(shell, "pull --token (redacted) https://me:(redacted)@hub/x && export API_KEY=(redacted)") {
		t.Errorf("shell line: %s", shell)
	}
	for path, v := range got {
		for _, c := range canaries {
			if strings.Contains(v+shell, c) {
				t.Errorf("%s shows the secret %s", path, c)
			}
		}
	}
}

// TestSecretChangeShows: that a secret changed is seen, its value is not.
func TestSecretChangeShows(t *testing.T) {
	r := &redactor{}
	old, now := template(), template()
	now.Spec.Containers[0].Env[0].Value = "hf_anotherANOTHERanother0001"
	diff := Diff(r.flatten(old), r.flatten(now))
	if len(diff) != 1 || diff[0].Path != "containers[vllm].env[HF_TOKEN]" || strings.Contains(diff[0].To, "another") {
		t.Errorf("diff %+v", diff)
	}
}

// TestLongValuesDiffer: two values that differ far behind the cut still differ.
func TestLongValuesDiffer(t *testing.T) {
	r := &redactor{}
	long := strings.Repeat("a", 1000)
	a := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Args: []string{"--x", long + "1"}}}}}
	b := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Args: []string{"--x", long + "2"}}}}}
	if d := Diff(r.flatten(a), r.flatten(b)); len(d) != 1 || len(d[0].From) > 400 {
		t.Errorf("diff %+v", d)
	}
}

// TestFlattenLosesNoArgument: however arguments are written, each token's
// change is a change of the fields.
func TestFlattenLosesNoArgument(t *testing.T) {
	token := rapid.SampledFrom([]string{"--a", "--b", "--a=1", "--a=2", "--b=1", "1", "2", "-1", "x", "-c", "serve", "--a 1"})
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(token, 1, 8).Draw(t, "args")
		i := rapid.IntRange(0, len(args)-1).Draw(t, "i")
		other := append([]string(nil), args...)
		other[i] = "changed"
		r := &redactor{}
		flat := func(args []string) map[string]string {
			out := map[string]string{}
			r.flags(out, "args", args)
			return out
		}
		if len(Diff(flat(args), flat(other))) == 0 {
			t.Fatalf("%q and %q look the same: %v", args, other, flat(args))
		}
	})
}

// TestPodTemplateHidesCredentials: whatever a variable, a flag or an argument is called
// and however it is written, a credential in a template is not shown, and that it changed
// is.
func TestPodTemplateHidesCredentials(t *testing.T) {
	const canary = "cAnArY"
	in := func(c corev1.Container) corev1.PodTemplateSpec {
		c.Name = "c"
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
	}
	env := func(name, value string) corev1.PodTemplateSpec {
		return in(corev1.Container{Env: []corev1.EnvVar{{Name: name, Value: value}}})
	}
	shell := func(script string) corev1.PodTemplateSpec {
		return in(corev1.Container{Command: []string{"sh", "-c", script}})
	}
	args := func(args ...string) corev1.PodTemplateSpec { return in(corev1.Container{Args: args}) }
	for name, of := range map[string]func(canary string) corev1.PodTemplateSpec{
		"PGPASSWORD":             func(c string) corev1.PodTemplateSpec { return env("PGPASSWORD", c) },
		"DB_PASS":                func(c string) corev1.PodTemplateSpec { return env("DB_PASS", c) },
		"a variable of any name": func(c string) corev1.PodTemplateSpec { return env("GREETING", c) },
		"an engine's variable": func(c string) corev1.PodTemplateSpec {
			return env("VLLM_HOST_IP", "postgres://u:"+c+"@h")
		},
		"sig=": func(c string) corev1.PodTemplateSpec {
			return env("HF_ENDPOINT", "https://a.blob.core.windows.net/m?sv=2024&sig="+c+"%3D&se=1")
		},
		"webhook": func(c string) corev1.PodTemplateSpec {
			return args("--model", "https://hooks.slack.com/services/T0/B0/"+c)
		},
		"hvs.":                   func(c string) corev1.PodTemplateSpec { return args("--model", "hvs.CAESIJlWh"+c) },
		"an unknown flag":        func(c string) corev1.PodTemplateSpec { return args("--greeting", c) },
		"an unknown flag inline": func(c string) corev1.PodTemplateSpec { return args("--greeting=" + c) },
		"an argument":            func(c string) corev1.PodTemplateSpec { return args("serve", c+"!") },
		"an argument, padded":    func(c string) corev1.PodTemplateSpec { return args("unseal", c+"A==") },
		"an assignment":          func(c string) corev1.PodTemplateSpec { return args("GREETING=" + c) },
		"quoted with spaces": func(c string) corev1.PodTemplateSpec {
			return shell(`export DB_PASSWORD="one ` + c + ` two" && vllm serve`)
		},
		"quoted with spaces, any name": func(c string) corev1.PodTemplateSpec {
			return shell(`GREETING='one ` + c + ` two' vllm serve --greeting "x ` + c + `"`)
		},
		"quotes that stay open": func(c string) corev1.PodTemplateSpec { return shell(`PGPASSWORD="one ` + c) },
		"a password with a slash": func(c string) corev1.PodTemplateSpec {
			return shell("psql postgres://u:p/" + c + "@x@h/db")
		},
		"a probe": func(c string) corev1.PodTemplateSpec {
			return in(corev1.Container{LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
				Exec:    &corev1.ExecAction{Command: []string{"sh", "-c", "curl -u me:" + c + " http://localhost"}},
				HTTPGet: &corev1.HTTPGetAction{HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Who", Value: c}}},
			}}})
		},
		"options of CSI": func(c string) corev1.PodTemplateSpec {
			return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				CSI: &corev1.CSIVolumeSource{Driver: "x", VolumeAttributes: map[string]string{"share": c}},
			}}}}}
		},
		"options of a flexVolume": func(c string) corev1.PodTemplateSpec {
			return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				FlexVolume: &corev1.FlexVolumeSource{Driver: "x", Options: map[string]string{"networkPath": c}},
			}}}}}
		},
		"mysql's password":           func(c string) corev1.PodTemplateSpec { return shell("mysql -h db -p" + c + " x") },
		"a value attached to a flag": func(c string) corev1.PodTemplateSpec { return args("-h", "db", "-p"+c, "-uservice:"+c) },
		"JSON in an option":          func(c string) corev1.PodTemplateSpec { return args(`--kv-transfer-config={"api_key":"` + c + `"}`) },
		"JSON in an option, deeper": func(c string) corev1.PodTemplateSpec {
			return args("--kv-transfer-config", `{"credentials":{"s3":{"user":"`+c+`","list":["`+c+`"]}},"env":[{"value":"`+c+`","name":"LICENCE"}]}`)
		},
		"JSON in single quotes": func(c string) corev1.PodTemplateSpec {
			return args("--kv-transfer-config", `{'api_key': '`+c+`'}`)
		},
		"JSON in a variable": func(c string) corev1.PodTemplateSpec {
			return env("VLLM_CONFIG", `{"env":[{"name":"DB_PASS","value":"`+c+`"}]}`)
		},
		"JSON in a shell's line": func(c string) corev1.PodTemplateSpec {
			return shell(`vllm serve --kv-transfer-config '{"auth":{"key":"` + c + `"}}'`)
		},
		"a cookie": func(c string) corev1.PodTemplateSpec { return shell(`curl -H "Cookie: a=` + c + `" x`) },
	} {
		r := &redactor{}
		one, two := r.flatten(of(canary+"1")), r.flatten(of(canary+"2"))
		for path, v := range one {
			if strings.Contains(path+v, canary) {
				t.Errorf("%s: %s shows %s", name, path, v)
			}
		}
		if len(Diff(one, two)) == 0 {
			t.Errorf("%s: a change does not show: %v", name, one)
		}
	}
}

// FuzzTemplate: a canary with the form or in the place of a credential never survives,
// whatever stands around it.
func FuzzTemplate(f *testing.F) {
	f.Add("GREETING", "--greeting", "x", uint8(0))
	f.Add("VLLM_X", "--api-key", "", uint8(1))
	f.Add("A", "-c", "curl -u a:b ", uint8(2))
	f.Add("A", "", "login", uint8(3))
	f.Fuzz(func(t *testing.T, name, flag, before string, place uint8) {
		const canary = "0cAnArY0cAnArY0cAnArY0" // as long and mixed as a key
		if strings.Contains(name+flag+before, "cAnArY") || name == "" {
			t.Skip()
		}
		c := corev1.Container{Name: "c"}
		switch place % 4 {
		case 0:
			c.Env = []corev1.EnvVar{{Name: name, Value: before + " hvs.CAESIJ" + canary}}
		case 1:
			c.Args = []string{"--api-key", canary, "--" + flag + "-token=" + canary}
		case 2:
			c.Args = []string{"--model", "postgres://u:" + canary + "@h/" + url.PathEscape(before)}
		default:
			c.Args = []string{canary, "serve", before}
		}
		for path, v := range (&redactor{}).flatten(corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}) {
			if strings.Contains(v, canary) || strings.Contains(path, canary) {
				t.Errorf("%s: %s", path, v)
			}
		}
	})
}

// FuzzMarks: no annotation is too odd, and what is read of bounds prints as it was meant.
func FuzzMarks(f *testing.F) {
	f.Add("r-1/fix#1 2026-01-02T03:04:05Z")
	f.Add("2..8")
	f.Add("..")
	f.Fuzz(func(t *testing.T, s string) {
		if key, at := ParseMark(s); !strings.HasPrefix(s, key) || !at.IsZero() && key == s {
			t.Errorf("%q: %q at %s", s, key, at)
		}
		b, err := ParseBounds(s)
		if err != nil {
			return
		}
		if again, err := ParseBounds(b.String()); err != nil || again.String() != b.String() {
			t.Errorf("%q is %s, and that is %s, %v", s, b, again, err)
		}
	})
}

// TestTemplatesShowWhatIsNoCredential: options of engines that only sound like credentials.
func TestTemplatesShowWhatIsNoCredential(t *testing.T) {
	const scaling, generation = `{"rope_type":"yarn","factor":4.0}`, `{"eos_token_id":2}`
	got := (&redactor{}).flatten(corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", Args: []string{"--rope-scaling", scaling, "--override-generation-config", generation, "--max-num-batched-tokens=8192", "--hf-token=None"},
		Env: []corev1.EnvVar{{Name: "HF_TOKEN", Value: "None"}},
	}}}})
	for path, want := range map[string]string{
		"args[--rope-scaling]": scaling, "args[--override-generation-config]": generation, "args[--max-num-batched-tokens]": "8192", "args[--hf-token]": "None", "env[HF_TOKEN]": "None",
	} {
		if got := got["containers[c]."+path]; got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}
