package api

import "time"

// SessionList is the answer of GET and DELETE /api/v1/sessions: the sessions of people who
// are signed in on the page, the most recently used first.
type SessionList struct {
	Sessions []Session `json:"sessions"`
	Ended    int       `json:"ended,omitempty"` // by this request
}

// Session is one browser in which a person is signed in.
type Session struct {
	Person string    `json:"person"` // e.g. user:ada
	Method string    `json:"method"` // password or oidc
	Groups []string  `json:"groups"`
	Began  time.Time `json:"began"`
	Used   time.Time `json:"used"` // by the last request that counts as use
}

// SessionEnd is the body of DELETE /api/v1/sessions. It names a person or all. Who
// ends the sessions is taken from the credential.
type SessionEnd struct {
	Person string `json:"person,omitempty"` // with or without user:
	All    bool   `json:"all,omitempty"`    // everybody's
	Reason string `json:"reason,omitempty"`
}
