package repository

import (
	"context"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
)

// carrier reaches a remote over one protocol. A session is one exchange: the
// list of references, and then one fetch or one push.
type carrier interface {
	// fetch opens a session to read, push one to write. Both honour the context from
	// the first packet to Close.
	fetch(context.Context) (fetching, error)
	push(context.Context) (pushing, error)
}

type fetching interface {
	AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error)
	UploadPack(context.Context, *packp.UploadPackRequest) (*packp.UploadPackResponse, error)
	io.Closer
}

type pushing interface {
	AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error)
	ReceivePack(context.Context, *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error)
	io.Closer
}

var (
	_ fetching = transport.UploadPackSession(nil)
	_ pushing  = transport.ReceivePackSession(nil)
)

var (
	errRedirect = errors.New("redirect to another host")
	errStopped  = errors.New("the remote ended its answer early")
	errSSHAuth  = errors.New("ssh: the key was not accepted")
)

func (r *Repository) newCarrier() (carrier, error) {
	switch r.at.scheme {
	case "ssh":
		return &sshCarrier{at: r.at, auth: r.o.Auth, secrets: &r.secrets, refs: r.o.Limits.Refs}, nil
	case "file":
		return &fileCarrier{path: r.at.path}, nil
	default:
		return newHTTPCarrier(r.at, r.o, &r.secrets)
	}
}
