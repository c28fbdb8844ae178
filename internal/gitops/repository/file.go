package repository

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/server"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// fileCarrier is a bare repository in the file system, for tests and
// sandboxes: no git program is needed, and no hook runs.
type fileCarrier struct{ path string }

func (f *fileCarrier) open() (*filesystem.Storage, error) {
	dir := f.path
	if _, err := os.Stat(filepath.Join(dir, ".git", "HEAD")); err == nil {
		dir = filepath.Join(dir, ".git")
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return nil, transport.ErrRepositoryNotFound
	}
	return filesystem.NewStorage(osfs.New(dir), cache.NewObjectLRU(4<<20)), nil
}

func (f *fileCarrier) endpoint(store *filesystem.Storage) (transport.Transport, *transport.Endpoint) {
	ep := &transport.Endpoint{Protocol: "file", Path: f.path}
	return server.NewClient(server.MapLoader{ep.String(): store}), ep
}

func (f *fileCarrier) fetch(context.Context) (fetching, error) {
	store, err := f.open()
	if err != nil {
		return nil, err
	}
	client, ep := f.endpoint(store)
	return client.NewUploadPackSession(ep, nil)
}

func (f *fileCarrier) push(context.Context) (pushing, error) {
	store, err := f.open()
	if err != nil {
		return nil, err
	}
	client, ep := f.endpoint(store)
	s, err := client.NewReceivePackSession(ep, nil)
	return &filePush{s, store}, err
}

// filePush compares before it swaps, which the library's server does not.
type filePush struct {
	transport.ReceivePackSession
	store *filesystem.Storage
}

// ReceivePack keeps the objects and moves the one reference.
func (f *filePush) ReceivePack(ctx context.Context, req *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	report := packp.NewReportStatus()
	report.UnpackStatus = "ok"
	if req.Packfile != nil {
		defer req.Packfile.Close()
		if err := packfile.UpdateObjectStorage(f.store, req.Packfile); err != nil {
			return nil, err
		}
	}
	c := req.Commands[0]
	status := "ok"
	if err := f.move(c); err != nil {
		status = err.Error()
	}
	report.CommandStatuses = []*packp.CommandStatus{{ReferenceName: c.Name, Status: status}}
	return report, report.Error()
}

func (f *filePush) move(c *packp.Command) error {
	now := plumbing.ZeroHash
	ref, err := f.store.Reference(c.Name)
	if err == nil {
		now = ref.Hash()
	}
	switch {
	case now != c.Old:
		return fmt.Errorf("failed to update ref: is at %s", now)
	case c.New.IsZero():
		return f.store.RemoveReference(c.Name)
	case c.Old.IsZero():
		return f.store.SetReference(plumbing.NewHashReference(c.Name, c.New))
	}
	return f.store.CheckAndSetReference(plumbing.NewHashReference(c.Name, c.New), ref)
}
