package gittest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

type object = map[string]any

// orNil is null in JSON for what is empty.
func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func (f *Forge) showGitHub(p *Pull) object {
	state, mergeable, mergedAt, trial := "open", "clean", any(nil), any(strings.Repeat("7", 40))
	switch {
	case p.State == "merged":
		state, mergeable, mergedAt, trial = "closed", "unknown", "2026-03-01T12:00:00Z", p.Merged
	case p.State == "closed":
		state, mergeable = "closed", "unknown"
	case f.conflicts(p):
		mergeable, trial = "dirty", nil
	case f.blocked != "":
		mergeable = "blocked"
	case f.unstable():
		mergeable = "unstable"
	}
	return object{
		"number": p.Number, "html_url": fmt.Sprintf("%s/acme/fleet/pull/%d", f.URL, p.Number), "state": state,
		"title": p.Title, "body": orNil(p.Text), "merged_at": mergedAt, "merge_commit_sha": trial, "mergeable_state": mergeable,
		"head": object{"ref": p.Branch, "sha": p.Head, "label": "acme:" + p.Branch}, "base": object{"ref": p.Base},
		"merged_by": map[bool]any{true: object{"login": p.MergedBy}, false: nil}[p.MergedBy != ""],
	}
}

func (f *Forge) serveGitHub(mux *http.ServeMux) {
	f.rulesGitHub(mux)
	const base = "/repos/acme/fleet/pulls"
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Title, Head, Base, Body string }
		if !read(w, r, &in) {
			return
		}
		p, why := f.open(in.Title, in.Head, in.Base, in.Body)
		if p == nil {
			answer(w, 422, object{"message": "Validation Failed", "errors": []object{{"resource": "PullRequest", "code": "custom", "message": why}}})
			return
		}
		answer(w, 201, f.showGitHub(p))
	})
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		out := []object{}
		for _, p := range f.matching(q.Get("head"), q.Get("base")) {
			if !p.Fork && (q.Get("state") == "all" || p.State == "open") {
				out = append(out, f.showGitHub(p))
			}
		}
		answer(w, 200, out)
	})
	mux.HandleFunc("GET "+base+"/{number}", func(w http.ResponseWriter, r *http.Request) {
		if p := f.numbered(w, r); p != nil {
			answer(w, 200, f.showGitHub(p))
		}
	})
	mux.HandleFunc("PUT "+base+"/{number}/merge", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			SHA     string `json:"sha"`
			Method  string `json:"merge_method"`
			Title   string `json:"commit_title"`
			Message string `json:"commit_message"`
		}
		p := f.numbered(w, r)
		switch {
		case p == nil || !read(w, r, &in):
		case p.Head != in.SHA:
			answer(w, 409, object{"message": "Head branch was modified. Review and try the merge again."})
		case p.State != "open" || f.refuses() || f.merge(p, in.Method, "responder-bot", in.Title, in.Message) != nil:
			answer(w, 405, object{"message": "Pull Request is not mergeable " + f.blocked})
		default:
			answer(w, 200, object{"sha": p.Merged, "merged": true, "message": "Pull Request successfully merged"})
		}
	})
	mux.HandleFunc("PATCH "+base+"/{number}", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ State string }
		if p := f.numbered(w, r); p != nil && read(w, r, &in) {
			if p.State == "open" {
				p.State = in.State
			}
			answer(w, 200, f.showGitHub(p))
		}
	})
}

func (f *Forge) showGitLab(p *Pull) object {
	state, status := map[string]string{"open": "opened", "closed": "closed", "merged": "merged"}[p.State], "mergeable"
	conflicts := p.State == "open" && f.conflicts(p)
	switch {
	case p.State != "open":
		status = "not_open"
	case conflicts:
		status = "conflict"
	case f.blocked != "":
		status = "not_approved"
	case f.asked():
		status = "requested_changes"
	}
	merged, squashed := any(nil), any(nil)
	if p.State == "merged" && p.Squashed {
		squashed = p.Merged // of a project whose method is fast-forward
	} else if p.State == "merged" {
		merged = p.Merged
	}
	source := 1
	if p.Fork {
		source = 2
	}
	pipeline := any(nil)
	if len(f.checks) > 0 {
		pipeline = object{"status": map[bool]string{true: "failed", false: "success"}[f.unstable()]}
	}
	return object{
		"iid": p.Number, "head_pipeline": pipeline, "web_url": fmt.Sprintf("%s/acme/inference/fleet/-/merge_requests/%d", f.URL, p.Number), "state": state,
		"title": p.Title, "description": orNil(p.Text), "source_branch": p.Branch, "target_branch": p.Base, "sha": p.Head,
		"source_project_id": source, "target_project_id": 1, "merge_commit_sha": merged, "squash_commit_sha": squashed,
		"detailed_merge_status": status, "has_conflicts": conflicts,
		"merge_user": map[bool]any{true: object{"username": p.MergedBy}, false: nil}[p.MergedBy != ""],
	}
}

func (f *Forge) serveGitLab(mux *http.ServeMux) {
	f.rulesGitLab(mux)
	const base = "/api/v4/projects/{project}/merge_requests"
	mux.HandleFunc("POST "+base, func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Title, Description string
			Source             string `json:"source_branch"`
			Target             string `json:"target_branch"`
		}
		if !f.project(w, r) || !read(w, r, &in) {
			return
		}
		p, why := f.open(in.Title, in.Source, in.Target, in.Description)
		if p == nil {
			answer(w, 409, object{"message": []string{why}})
			return
		}
		answer(w, 201, f.showGitLab(p))
	})
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, r *http.Request) {
		out := []object{}
		if !f.project(w, r) {
			return
		}
		for _, p := range f.matching(r.URL.Query().Get("source_branch"), r.URL.Query().Get("target_branch")) {
			out = append(out, f.showGitLab(p))
		}
		answer(w, 200, out)
	})
	mux.HandleFunc("GET "+base+"/{number}", func(w http.ResponseWriter, r *http.Request) {
		if p := f.numbered(w, r); p != nil {
			answer(w, 200, f.showGitLab(p))
		}
	})
	mux.HandleFunc("PUT "+base+"/{number}/merge", f.mergeGitLab)
	mux.HandleFunc("PUT "+base+"/{number}", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Event string `json:"state_event"`
		}
		if p := f.numbered(w, r); p != nil && read(w, r, &in) {
			if p.State == "open" && in.Event == "close" {
				p.State = "closed"
			}
			answer(w, 200, f.showGitLab(p))
		}
	})
}

func (f *Forge) mergeGitLab(w http.ResponseWriter, r *http.Request) {
	var in struct {
		SHA           string `json:"sha"`
		Squash        bool   `json:"squash"`
		Message       string `json:"merge_commit_message"`
		SquashMessage string `json:"squash_commit_message"`
	}
	p := f.numbered(w, r)
	if p == nil || !read(w, r, &in) {
		return
	}
	method := map[bool]string{true: "squash", false: "merge"}[in.Squash]
	switch {
	case p.Head != in.SHA:
		answer(w, 409, object{"message": "SHA does not match HEAD of source branch"})
	case p.State != "open" || f.refuses():
		answer(w, 405, object{"message": "405 Method Not Allowed"})
	case f.merge(p, method, "responder-bot", in.Message+in.SquashMessage, "") != nil:
		answer(w, 422, object{"message": "Branch cannot be merged"})
	default:
		answer(w, 200, f.showGitLab(p))
	}
}

func (f *Forge) project(w http.ResponseWriter, r *http.Request) bool {
	if r.PathValue("project") == f.Repository() {
		return true
	}
	answer(w, 404, object{"message": "404 Project Not Found"})
	return false
}

func (f *Forge) showGitea(p *Pull) object {
	ref, repository := p.Branch, 1
	if f.head(p.Branch) == "" {
		ref = fmt.Sprintf("refs/pull/%d/head", p.Number)
	}
	if p.Fork {
		repository = 2
	}
	return object{
		"number": p.Number, "html_url": fmt.Sprintf("%s/acme/fleet/pulls/%d", f.URL, p.Number), "title": p.Title, "body": p.Text,
		"state":  map[string]string{"open": "open", "closed": "closed", "merged": "closed"}[p.State],
		"merged": p.State == "merged", "merge_commit_sha": orNil(p.Merged),
		"mergeable": p.State == "open" && !f.conflicts(p),
		"head":      object{"label": p.Branch, "ref": ref, "sha": p.Head, "repo_id": repository},
		"base":      object{"label": p.Base, "ref": p.Base, "repo_id": 1},
		"merged_by": map[bool]any{true: object{"login": p.MergedBy}, false: nil}[p.MergedBy != ""],
	}
}

func (f *Forge) serveGitea(mux *http.ServeMux) {
	const base = "/api/v1/repos/acme/fleet"
	f.rulesGitea(mux)
	mux.HandleFunc("GET "+base, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, object{"full_name": "acme/fleet"}) })
	mux.HandleFunc("POST "+base+"/pulls", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Title, Head, Base, Body string }
		if !read(w, r, &in) {
			return
		}
		p, why := f.open(in.Title, in.Head, in.Base, in.Body)
		if p == nil {
			answer(w, 409, object{"message": why, "url": f.URL + "/api/swagger"})
			return
		}
		answer(w, 201, f.showGitea(p))
	})
	mux.HandleFunc("GET "+base+"/pulls", func(w http.ResponseWriter, r *http.Request) {
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		all, out := f.matching("", ""), []object{}
		for i := (page - 1) * limit; i >= 0 && i < min(page*limit, len(all)); i++ {
			out = append(out, f.showGitea(all[i]))
		}
		answer(w, 200, out)
	})
	mux.HandleFunc("GET "+base+"/pulls/{base}/{head...}", func(w http.ResponseWriter, r *http.Request) {
		all := f.matching(r.PathValue("head"), r.PathValue("base"))
		if len(all) == 0 {
			answer(w, 404, object{"message": "The target couldn't be found."})
			return
		}
		answer(w, 200, f.showGitea(all[len(all)-1])) // any of them
	})
	mux.HandleFunc("GET "+base+"/pulls/{number}", func(w http.ResponseWriter, r *http.Request) {
		if p := f.numbered(w, r); p != nil {
			answer(w, 200, f.showGitea(p))
		}
	})
	mux.HandleFunc("POST "+base+"/pulls/{number}/merge", f.mergeGitea)
	mux.HandleFunc("PATCH "+base+"/pulls/{number}", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ State string }
		if p := f.numbered(w, r); p != nil && read(w, r, &in) {
			if p.State == "open" {
				p.State = in.State
			}
			answer(w, 201, f.showGitea(p))
		}
	})
}

func (f *Forge) mergeGitea(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Do                                 string
		HeadCommitID                       string `json:"head_commit_id"`
		MergeTitleField, MergeMessageField string
	}
	p := f.numbered(w, r)
	switch {
	case p == nil || !read(w, r, &in):
	case p.Head != in.HeadCommitID:
		answer(w, 409, object{"message": "head out of date"})
	case p.State != "open" || f.refuses():
		answer(w, 405, object{"message": "Please try again later"})
	case f.merge(p, in.Do, "responder-bot", in.MergeTitleField, in.MergeMessageField) != nil:
		answer(w, 409, object{"message": "merge conflict"})
	default:
		w.WriteHeader(200)
	}
}
