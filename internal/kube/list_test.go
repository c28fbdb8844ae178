package kube

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// encoded is a list of nodes as an API server writes it.
func encoded(t testing.TB, mime string, nodes int, more ...string) []byte {
	t.Helper()
	list := &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	if len(more) > 0 {
		list.Continue = more[0]
	}
	for i := range nodes {
		list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i), Labels: map[string]string{"a": "b"}}})
	}
	info, ok := runtime.SerializerInfoForMediaType(Codecs.SupportedMediaTypes(), mime)
	if !ok {
		t.Fatal("no serializer for " + mime)
	}
	out, err := runtime.Encode(Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func names(data []byte) (out []string, err error) {
	err = eachIn(bufio.NewReader(bytes.NewReader(data)), func(n *corev1.Node) error {
		out = append(out, n.Name)
		return nil
	})
	return out, err
}

// TestList: all objects are read, in both forms, and a list that is cut off anywhere is an
// error: some of a cluster is not all of it.
func TestList(t *testing.T) {
	for _, mime := range []string{"application/vnd.kubernetes.protobuf", "application/json"} {
		data := encoded(t, mime, 3)
		if got, err := names(data); err != nil || fmt.Sprint(got) != "[node-0 node-1 node-2]" {
			t.Errorf("%s: %v, %v", mime, got, err)
		}
		if got, err := names(encoded(t, mime, 0)); err != nil || len(got) > 0 {
			t.Errorf("%s, none: %v, %v", mime, got, err)
		}
		if got, err := names(encoded(t, mime, 3, "more")); err == nil || len(got) > 0 {
			t.Errorf("%s, a page: %v, %v", mime, got, err)
		}
		end := bytes.LastIndex(data, []byte("node-2"))
		for n := range end {
			if got, err := names(data[:n]); err == nil {
				t.Fatalf("%s, %d of %d bytes: %v and no error", mime, n, len(data), got)
			}
		}
	}
	for _, answer := range []string{`{}`, `{"kind":"Status","status":"Failure"}`, `<html>`, ``} {
		if _, err := names([]byte(answer)); err == nil {
			t.Errorf("%s is taken for a list of none", answer)
		}
	}
	stop := errors.New("enough")
	err := eachIn(bufio.NewReader(bytes.NewReader(encoded(t, "application/vnd.kubernetes.protobuf", 3))), func(*corev1.Node) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("went on after %v", err)
	}
	if _, err := names([]byte("k8s\x00\x12\xff\xff\xff\xff\x7f\x12\xff\xff\xff\x7f")); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("an object of 256 MiB: %v", err)
	}
}

// FuzzList: no answer makes it panic, or take more memory than it has bytes.
func FuzzList(f *testing.F) {
	f.Add(encoded(f, "application/vnd.kubernetes.protobuf", 2))
	f.Add(encoded(f, "application/json", 2))
	f.Add([]byte("k8s\x00\x12\x7f\x12\x7f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := names(data)
		if err == nil && len(got) > len(data) {
			t.Errorf("%d objects of %d bytes", len(got), len(data))
		}
	})
}
