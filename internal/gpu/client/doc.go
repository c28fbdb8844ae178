// Package client fetches the GPU readings of a cluster's nodes from their agents.
// A missing answer is an error, never a healthy node.
//
// The API server decides which agent is a node's, by the pod's address and its
// spec.nodeName. The agent at that address authenticates with a certificate of our
// authority. It proves that it is that pod with a token that the API server has
// bound to it, or with a certificate in the node's own name. Only then is its
// snapshot accepted as that node's, and only if the snapshot names the node too.
package client
