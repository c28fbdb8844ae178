package fleet

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// read reads the workloads of services, and what changed in them.
func (c breaches) read(ctx context.Context, ps []party, now time.Time, window time.Duration) {
	each(len(ps), func(i int) {
		if err := c.readWorkload(ctx, &ps[i], now); err != nil {
			ps[i].unread = err
		}
	})
	c.readChanges(ctx, ps, now, window)
}

func (c breaches) readWorkload(ctx context.Context, p *party, now time.Time) error {
	w, err := c.w.Workload(ctx, step.RefOf(p.svc))
	if err != nil {
		return err
	}
	p.nodes, p.pods = map[string]bool{}, map[string]bool{}
	most := loadsWithin(p.svc, w)
	for _, pod := range w.Pods {
		if pod.Node != "" {
			p.nodes[pod.Node], p.pods[pod.Name] = true, true
		}
		if pod.Ready {
			continue
		}
		pulls := strings.HasPrefix(pod.Waiting, "ErrImage") || strings.HasPrefix(pod.Waiting, "ImagePull")
		late := !pod.Started.IsZero() && now.Sub(pod.Started) > most
		if pulls || late || pod.Waiting == "CrashLoopBackOff" || pod.Restarts > 0 {
			p.blocked, p.pulls = true, p.pulls || pulls
			p.waits = p.waits || (pulls || late && pod.Restarts == 0) && now.Sub(pod.Started) < apart+most
		}
	}
	return nil
}

// loadsWithin returns how long a replica of the service may load: as the catalog
// says, or else twice as long as those that serve did.
func loadsWithin(svc playbook.Service, w kube.Workload) time.Duration {
	within := svc.LoadTime
	if took := step.Loadings(w); within == 0 && len(took) > 0 {
		within = 2 * took[(len(took)-1)/2]
	}
	return max(within, leastLoad)
}

// leastLoad is how long a pod may take to become ready before it counts as one
// that does not.
const leastLoad = 10 * time.Minute

// readChanges reads what changed in the pod templates of services within the
// window, and where their images and models come from.
func (c breaches) readChanges(ctx context.Context, ps []party, now time.Time, window time.Duration) {
	if c.w == nil {
		return
	}
	each(len(ps), func(i int) {
		p := &ps[i]
		revisions, err := c.w.Revisions(ctx, step.RefOf(p.svc))
		if err != nil {
			p.unread = cmp.Or(p.unread, err)
			return
		}
		current, previous := kube.Newest(revisions)
		if current == nil {
			return
		}
		p.models = modelHost(p.svc, current.Fields)
		if p.pulls {
			p.images = imageRegistry(p.svc, current.Fields)
		}
		if previous == nil || current.Ours || now.Sub(current.Became()) > window {
			return
		}
		p.changes = changesOf(p.svc, *current, *previous)
		if p.changes == nil {
			return
		}
		if commit := c.commit(ctx, p.svc, now, window); commit != "" {
			p.changes["commit "+commit] = current.Became()
		}
	})
}

// changesOf names what a revision changed that can change how requests are served,
// in words that are the same for every service: the fields of its containers without
// the container's name, and where its manifests are.
func changesOf(svc playbook.Service, current, previous kube.Revision) map[string]time.Time {
	out, at := map[string]time.Time{}, current.Became()
	moved := slices.DeleteFunc(kube.Diff(previous.Fields, current.Fields), func(d kube.FieldDiff) bool { return !kube.Matters(d.Path) })
	if len(moved) == 0 {
		return nil
	}
	for _, d := range moved {
		list, rest, ok := strings.Cut(d.Path, "[")
		_, field, inside := strings.Cut(rest, "].")
		switch {
		case !ok || !inside || !strings.HasSuffix(list, "ontainers"), strings.Contains(d.To, "(redacted"):
		case d.To == "":
			out[field+" taken away"] = at
		default:
			out[field+" "+d.To] = at
		}
	}
	if g := svc.GitOps; g.Application != "" {
		out["a release of the Argo CD application "+g.Application] = at
	} else if g.Repository != "" {
		out["a release from "+strings.TrimSuffix(g.Repository+"/"+g.Path, "/")] = at
	}
	return out
}

// commit returns the commit that Argo CD synced last, within the window; empty:
// none is known.
func (c breaches) commit(ctx context.Context, svc playbook.Service, now time.Time, window time.Duration) string {
	if c.apps == nil || svc.GitOps.Application == "" {
		return ""
	}
	app, err := c.apps.Application(ctx, svc.GitOps.Application)
	if err != nil || len(app.History) == 0 {
		return "" // the changed fields are compared all the same
	}
	last := app.History[len(app.History)-1]
	if now.Sub(last.At) > window || len(last.Revisions) == 0 {
		return ""
	}
	return strings.Join(last.Revisions, " ")
}

// container returns the path of the engine's container in a flattened template.
func container(svc playbook.Service, fields map[string]string) string {
	if svc.Container != "" {
		return "containers[" + svc.Container + "]"
	}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		if base, ok := strings.CutSuffix(path, ".image"); ok && strings.HasPrefix(base, "containers[") {
			return base
		}
	}
	return "containers[]"
}

// imageRegistry returns the registry of the engine's image.
func imageRegistry(svc playbook.Service, fields map[string]string) string {
	image := fields[container(svc, fields)+".image"]
	host, _, ok := strings.Cut(image, "/")
	switch {
	case image == "":
		return ""
	case !ok || !strings.ContainsAny(host, ".:") && host != "localhost":
		return "docker.io"
	}
	return host
}

// modelHost returns the host that the engine loads its model from, by its
// arguments and variables; empty: not known, or a path.
func modelHost(svc playbook.Service, fields map[string]string) string {
	base := container(svc, fields)
	if u, err := url.Parse(fields[base+".env[HF_ENDPOINT]"]); err == nil && u.Host != "" {
		return u.Host
	}
	for _, flag := range []string{"--model", "--model-path"} {
		for _, at := range []string{".args[", ".command["} {
			model := fields[base+at+flag+"]"]
			if scheme, rest, ok := strings.Cut(model, "://"); ok {
				host, _, _ := strings.Cut(rest, "/")
				return scheme + "://" + host
			}
			if strings.Count(model, "/") == 1 && !strings.HasPrefix(model, "/") && !strings.HasPrefix(model, ".") {
				return "huggingface.co" // ORGANIZATION/MODEL
			}
		}
	}
	return ""
}
