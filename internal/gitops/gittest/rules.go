package gittest

import (
	"net/http"
	"slices"
)

// unstable reports whether a check has not passed.
func (f *Forge) unstable() bool {
	for _, state := range f.checks {
		if state != "success" {
			return true
		}
	}
	return false
}

// asked reports whether somebody asks for changes.
func (f *Forge) asked() bool {
	return slices.ContainsFunc(f.reviews, func(r [2]string) bool { return r[1] == "CHANGES_REQUESTED" })
}

// statuses are the checks as Gitea lists them.
func (f *Forge) statuses() []object {
	out := []object{}
	for name, state := range f.checks {
		out = append(out, object{"context": name, "status": state})
	}
	return out
}

func (f *Forge) listReviews(word string) []object {
	out := []object{}
	for _, r := range f.reviews {
		state := r[1]
		if state == "CHANGES_REQUESTED" {
			state = word
		}
		out = append(out, object{"user": object{"login": r[0]}, "state": state})
	}
	return out
}

func (f *Forge) rulesGitHub(mux *http.ServeMux) {
	const base = "/repos/acme/fleet"
	mux.HandleFunc("GET "+base+"/branches/{branch}", func(w http.ResponseWriter, r *http.Request) {
		answer(w, 200, object{"name": r.PathValue("branch"), "protected": f.protected[r.PathValue("branch")]})
	})
	mux.HandleFunc("GET "+base+"/pulls/{number}/reviews", func(w http.ResponseWriter, r *http.Request) {
		if f.numbered(w, r) != nil {
			answer(w, 200, f.listReviews("CHANGES_REQUESTED"))
		}
	})
	mux.HandleFunc("GET "+base+"/commits/{sha}/check-runs", func(w http.ResponseWriter, _ *http.Request) {
		runs := []object{}
		for name, state := range f.checks {
			run := object{"name": name, "status": "in_progress", "conclusion": nil}
			if state != "pending" {
				run = object{"name": name, "status": "completed", "conclusion": state}
			}
			runs = append(runs, run)
		}
		answer(w, 200, object{"total_count": len(runs), "check_runs": runs})
	})
	mux.HandleFunc("GET "+base+"/commits/{sha}/status", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, object{"state": "pending", "total_count": 0, "statuses": []object{}}) // apps report check runs
	})
	mux.HandleFunc("GET "+base+"/commits/{sha}/pulls", func(w http.ResponseWriter, r *http.Request) {
		out := []object{}
		if p := f.cameWith(r.PathValue("sha")); p != nil {
			out = append(out, f.showGitHub(p))
		}
		answer(w, 200, out)
	})
}

func (f *Forge) rulesGitLab(mux *http.ServeMux) {
	const base = "/api/v4/projects/{project}/repository"
	mux.HandleFunc("GET "+base+"/branches/{branch}", func(w http.ResponseWriter, r *http.Request) {
		protected := f.protected[r.PathValue("branch")]
		answer(w, 200, object{"name": r.PathValue("branch"), "protected": protected, "can_push": !protected})
	})
	mux.HandleFunc("GET "+base+"/commits/{sha}/merge_requests", func(w http.ResponseWriter, r *http.Request) {
		out := []object{}
		if p := f.cameWith(r.PathValue("sha")); p != nil {
			out = append(out, f.showGitLab(p))
		}
		answer(w, 200, out)
	})
}

func (f *Forge) rulesGitea(mux *http.ServeMux) {
	const base = "/api/v1/repos/acme/fleet"
	mux.HandleFunc("GET "+base+"/branches/{branch...}", func(w http.ResponseWriter, r *http.Request) {
		protected := f.protected[r.PathValue("branch")]
		answer(w, 200, object{"name": r.PathValue("branch"), "protected": protected, "user_can_push": !protected, "required_approvals": 0})
	})
	mux.HandleFunc("GET "+base+"/pulls/{number}/reviews", func(w http.ResponseWriter, r *http.Request) {
		if f.numbered(w, r) != nil {
			answer(w, 200, f.listReviews("REQUEST_CHANGES"))
		}
	})
	mux.HandleFunc("GET "+base+"/commits/{sha}/status", func(w http.ResponseWriter, _ *http.Request) {
		list, state := f.statuses(), "success"
		if f.unstable() {
			state = "failure"
		}
		answer(w, 200, object{"state": state, "total_count": len(list), "statuses": list})
	})
	mux.HandleFunc("GET "+base+"/commits/{sha}/pull", func(w http.ResponseWriter, r *http.Request) {
		if p := f.cameWith(r.PathValue("sha")); p != nil {
			answer(w, 200, f.showGitea(p))
			return
		}
		answer(w, 404, object{"message": "pull request does not exist [id: 0, issue_id: 0]"})
	})
}
