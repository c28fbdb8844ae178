//go:build e2e

package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Admin is the user that may do everything.
const Admin = userAdmin

// ServiceAccount returns the user name of a service account.
func ServiceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// Kubeconfig writes a kubeconfig for a user, [Admin] or a service account that
// exists, and returns its path. A service account gets a real token of an hour.
func (cp *ControlPlane) Kubeconfig(t testing.TB, user string) string {
	t.Helper()
	if user == Admin {
		return cp.kubeconfigPath(Admin)
	}
	account, ok := strings.CutPrefix(user, "system:serviceaccount:")
	namespace, name, both := strings.Cut(account, ":")
	if !ok || !both {
		t.Fatalf("kubeconfig for %q: want %q or a service account's user name", user, Admin)
	}
	hour := int64(3600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}}
	answer, err := cp.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("token for %s: %v", user, err)
	}
	cp.mu.Lock()
	cp.files++
	file := fmt.Sprintf("%s-%d", name, cp.files)
	cp.mu.Unlock()
	path, err := cp.writeKubeconfig(file, answer.Status.Token)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// KubeconfigThrough is [ControlPlane.Kubeconfig] with a proxy to the API server in
// between.
func (cp *ControlPlane) KubeconfigThrough(t testing.TB, user string, proxy *Proxy) string {
	t.Helper()
	path := cp.Kubeconfig(t, user)
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config.Clusters["rig"].Server, config.Clusters["rig"].TLSServerName = "https://"+proxy.Addr, "127.0.0.1"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

func (cp *ControlPlane) kubeconfigPath(name string) string {
	return filepath.Join(cp.Dir, name+".kubeconfig")
}

func (cp *ControlPlane) writeKubeconfig(name, token string) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["rig"] = &clientcmdapi.Cluster{Server: cp.URL, CertificateAuthorityData: cp.ca}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["rig"] = &clientcmdapi.Context{Cluster: "rig", AuthInfo: name}
	config.CurrentContext = "rig"
	path := cp.kubeconfigPath(name)
	return path, clientcmd.WriteToFile(*config, path)
}

// Event is one write in the API server's audit log.
type Event struct {
	Time        time.Time
	User        string
	UserAgent   string
	Verb        string // create, update, patch, delete, deletecollection
	Group       string // of the resource; empty: core
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	URI         string // with the query: dryRun, fieldManager
	Code        int    // HTTP status: a refused write is here too
}

// String is the event in one line of a test's message.
func (e Event) String() string {
	resource := e.Resource
	if e.Subresource != "" {
		resource += "/" + e.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s -> %d", e.Verb, resource, e.Namespace, e.Name, e.Code)
}

// auditEvent is the part of audit.k8s.io/v1 Event that tests need.
type auditEvent struct {
	Verb           string `json:"verb"`
	RequestURI     string `json:"requestURI"`
	UserAgent      string `json:"userAgent"`
	User           struct{ Username string }
	ObjectRef      struct{ Resource, Namespace, Name, APIGroup, Subresource string }
	ResponseStatus struct{ Code int }
	StageTimestamp time.Time `json:"stageTimestamp"`
}

// AuditWrites returns what a user has written or tried to write so far, oldest
// first. Questions that happen to be POSTs (reviews of tokens and of access)
// are not writes. With an empty user: everybody's.
func (cp *ControlPlane) AuditWrites(t testing.TB, user string) []Event {
	t.Helper()
	cp.flushAudit(t)
	all, err := cp.readAudit()
	if err != nil {
		t.Fatal(err)
	}
	var writes []Event
	for _, e := range all {
		review := e.Group == "authentication.k8s.io" || e.Group == "authorization.k8s.io"
		if !review && (user == "" || e.User == user) {
			writes = append(writes, e)
		}
	}
	return writes
}

// flushAudit asks a question of its own and waits for it in the log: the API
// server may answer a request a moment before it records it.
func (cp *ControlPlane) flushAudit(t testing.TB) {
	t.Helper()
	cp.mu.Lock()
	cp.flushes++
	agent := fmt.Sprintf("rig-flush-%d", cp.flushes)
	cp.mu.Unlock()
	config := rest.CopyConfig(cp.Config)
	config.UserAgent = agent
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.AuthenticationV1().SelfSubjectReviews().Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("flush the audit log: %v", err)
	}
	state, ok := await(10*time.Second, func(context.Context) (bool, string) {
		all, err := cp.readAudit()
		for _, e := range all {
			if e.UserAgent == agent {
				return true, ""
			}
		}
		return false, fmt.Sprint(err)
	})
	if !ok {
		t.Fatalf("the audit log does not move: %s", state)
	}
}

func (cp *ControlPlane) auditLog() string { return filepath.Join(cp.Dir, "audit.log") }

// readAudit reads what was added to the log since the last call and returns
// everything so far.
func (cp *ControlPlane) readAudit() ([]Event, error) {
	cp.audit.mu.Lock()
	defer cp.audit.mu.Unlock()
	file, err := os.Open(cp.auditLog())
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(cp.audit.read, io.SeekStart); err != nil {
		return nil, err
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil { // the end, or a line that is still being written
			return slices.Clip(cp.audit.events), nil
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		cp.audit.read += int64(len(line))
		cp.audit.events = append(cp.audit.events, Event{
			Time: e.StageTimestamp, User: e.User.Username, UserAgent: e.UserAgent, Verb: e.Verb,
			Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name, URI: e.RequestURI, Code: e.ResponseStatus.Code,
		})
	}
}

// auditTail is the audit log as far as it has been read.
type auditTail struct {
	mu     sync.Mutex // one reader at a time
	read   int64      // bytes
	events []Event
}
