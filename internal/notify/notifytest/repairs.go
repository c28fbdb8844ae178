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

// RepairServer accepts requests for repairs, each key once, and names them.
type RepairServer struct {
	Faults
	URL string

	mu     sync.Mutex // guards all below
	tokens []string
	taken  []RepairRequest
}

// RepairRequest is a request as received.
type RepairRequest struct {
	Key  string // the header
	Body map[string]any
}

// StartRepairServer starts a server below the path /repairs.
func StartRepairServer(t testing.TB) *RepairServer {
	t.Helper()
	d := &RepairServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { d.serve(w, req, d.handle) }))
	t.Cleanup(server.Close)
	d.URL = server.URL + "/repairs"
	return d
}

// StartRepairServerTLS is StartRepairServer over HTTPS and returns the certificate in PEM.
func StartRepairServerTLS(t testing.TB) (d *RepairServer, ca string) {
	t.Helper()
	d = &RepairServer{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { d.serve(w, req, d.handle) }))
	t.Cleanup(server.Close)
	d.URL = server.URL + "/repairs"
	return d, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// Taken returns the requests, each once, in order of arrival.
func (d *RepairServer) Taken() []RepairRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.taken)
}

// Tokens returns the Authorization headers of all that came.
func (d *RepairServer) Tokens() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.tokens)
}

func (d *RepairServer) handle(w http.ResponseWriter, req *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := RepairRequest{Key: req.Header.Get("Idempotency-Key")}
	body, err := io.ReadAll(io.LimitReader(req.Body, 64<<10))
	if err != nil || json.Unmarshal(body, &r.Body) != nil || r.Key == "" || req.Method != http.MethodPost || req.URL.Path != "/repairs" || req.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "not a request for a repair", http.StatusBadRequest)
		return
	}
	d.tokens = append(d.tokens, req.Header.Get("Authorization"))
	i := slices.IndexFunc(d.taken, func(have RepairRequest) bool { return have.Key == r.Key })
	if i < 0 {
		i, d.taken = len(d.taken), append(d.taken, r)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id": "OPS-%d"}`, i+1)
}
