package notifytest

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// Desk takes requests for repairs, a key once, and names them.
type Desk struct {
	Faults
	URL string

	mu     sync.Mutex // guards all below
	tokens []string
	taken  []DeskRequest
}

// DeskRequest is a request as it came.
type DeskRequest struct {
	Key  string // the header
	Body map[string]any
}

// StartDesk starts a desk below the path /repairs.
func StartDesk(t testing.TB) *Desk {
	t.Helper()
	d := &Desk{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { d.serve(w, req, d.handle) }))
	t.Cleanup(server.Close)
	d.URL = server.URL + "/repairs"
	return d
}

// StartDeskTLS is StartDesk over https, and gives the certificate in PEM.
func StartDeskTLS(t testing.TB) (d *Desk, ca string) {
	t.Helper()
	d = &Desk{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { d.serve(w, req, d.handle) }))
	t.Cleanup(server.Close)
	d.URL = server.URL + "/repairs"
	return d, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// Taken gives the requests, each once, in their order.
func (d *Desk) Taken() []DeskRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.taken)
}

// Tokens gives the Authorization headers of all that came.
func (d *Desk) Tokens() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.tokens)
}

func (d *Desk) handle(w http.ResponseWriter, req *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := DeskRequest{Key: req.Header.Get("Idempotency-Key")}
	body, err := io.ReadAll(io.LimitReader(req.Body, 64<<10))
	if err != nil || json.Unmarshal(body, &r.Body) != nil || r.Key == "" || req.Method != http.MethodPost || req.URL.Path != "/repairs" || req.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "not a request for a repair", http.StatusBadRequest)
		return
	}
	d.tokens = append(d.tokens, req.Header.Get("Authorization"))
	i := slices.IndexFunc(d.taken, func(have DeskRequest) bool { return have.Key == r.Key })
	if i < 0 {
		i, d.taken = len(d.taken), append(d.taken, r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id": "OPS-%d"}`, i+1)
}
