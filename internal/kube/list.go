package kube

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// This file reads lists of a whole cluster: with one request, whatever the cluster's size,
// and one object at a time in memory.

// item is a pointer to an object that is read from protobuf.
type item[T any] interface {
	*T
	Unmarshal(data []byte) error
}

// each calls do with every object of a resource of the core API, in all namespaces, until
// it returns an error.
func each[T any, P item[T]](ctx context.Context, c *Client, resource string, options metav1.ListOptions, do func(P) error) error {
	var refused error // what do returned
	body, err := c.typed.core().Get().Resource(resource).VersionedParams(&options, parameters).
		SetHeader("Accept", "application/vnd.kubernetes.protobuf,application/json").Stream(ctx)
	if err == nil {
		defer func() { _ = body.Close() }() // it was read
		err = eachIn[T, P](bufio.NewReaderSize(body, 1<<16), func(p P) error {
			refused = do(p)
			return refused
		})
	}
	if refused != nil {
		return refused
	}
	return request{verb: "list", resource: resource}.fail(err)
}

// Parts of a list in protobuf (https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding).
const (
	envelopeRaw = 2 // of runtime.Unknown: the list itself
	listMeta    = 1 // of the lists of the core API
	listItems   = 2
	maxObject   = 8 << 20
)

var magic = []byte("k8s\x00")

// eachIn reads the objects of a list in protobuf, or in JSON where the server has nothing else.
func eachIn[T any, P item[T]](in *bufio.Reader, do func(P) error) error {
	begin, err := in.Peek(len(magic))
	switch {
	case err != nil:
		return fmt.Errorf("the list is cut off: %w", err)
	case !bytes.Equal(begin, magic):
		return eachInJSON(in, do)
	}
	if _, err := in.Discard(len(magic)); err != nil {
		return err
	}
	there := false
	err = messageFields(in, func(number protowire.Number, length int64) error {
		if number != envelopeRaw {
			return skip(in, length)
		}
		there = true
		part := &io.LimitedReader{R: in, N: length}
		list := bufio.NewReader(part)
		err := messageFields(list, func(number protowire.Number, length int64) error {
			switch {
			case number != listItems && number != listMeta:
				return skip(list, length)
			case length > maxObject:
				return fmt.Errorf("an object of the list has %d bytes", length)
			}
			data := make([]byte, length)
			if _, err := io.ReadFull(list, data); err != nil {
				return cut(err)
			}
			if number == listMeta {
				var meta metav1.ListMeta
				if err := meta.Unmarshal(data); err != nil {
					return err
				}
				return whole(meta)
			}
			p := P(new(T))
			if err := p.Unmarshal(data); err != nil {
				return err
			}
			return do(p)
		})
		if err == nil && part.N > 0 {
			err = io.ErrUnexpectedEOF // or some of the cluster would be taken for all of it
		}
		return err
	})
	if err == nil && !there {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// messageFields calls do with each field of a message that has a length of its own, which do
// reads. The other fields of these messages are not used, and there are none.
func messageFields(in *bufio.Reader, do func(number protowire.Number, length int64) error) error {
	for {
		tag, err := binary.ReadUvarint(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return cut(err)
		}
		number, kind := protowire.DecodeTag(tag)
		length, err := binary.ReadUvarint(in)
		switch {
		case err != nil:
			return cut(err)
		case kind != protowire.BytesType || length > 1<<40:
			return fmt.Errorf("the list is no list: field %d of the type %d", number, kind)
		}
		if err := do(number, int64(length)); err != nil {
			return err
		}
	}
}

func skip(in *bufio.Reader, n int64) error {
	_, err := io.CopyN(io.Discard, in, n)
	return cut(err)
}

// cut makes the end of the input in the middle of a list an error of its own.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// whole refuses a list that is only the first page.
func whole(meta metav1.ListMeta) error {
	if meta.Continue != "" {
		return errors.New("the server gave a page of the list, and all of it was asked for")
	}
	return nil
}

func eachInJSON[T any, P item[T]](in io.Reader, do func(P) error) error {
	var list struct {
		Kind     string          `json:"kind"`
		Metadata metav1.ListMeta `json:"metadata"`
		Items    []T             `json:"items"`
	}
	if err := json.NewDecoder(in).Decode(&list); err != nil {
		return err
	}
	if !strings.HasSuffix(list.Kind, "List") {
		return fmt.Errorf("the answer is a %q and no list", clip(list.Kind))
	}
	if err := whole(list.Metadata); err != nil {
		return err
	}
	for i := range list.Items {
		if err := do(&list.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// eachNode calls do with every node that a label selector selects, until it returns an error.
func (c *Client) eachNode(ctx context.Context, selector string, do func(*corev1.Node) error) error {
	return each(ctx, c, "nodes", metav1.ListOptions{LabelSelector: selector}, do)
}
