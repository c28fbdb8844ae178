// Package client asks the agents of a cluster's nodes what is known of their
// GPUs. No answer is an error, never a healthy node.
//
// Which agent is a node's is the API server's word: the pod's address and its
// spec.nodeName. The agent at that address proves itself with a certificate of
// our authority, and that it is that pod with a token that the API server has
// bound to it, or with a certificate in the node's own name. Only then is its
// snapshot believed to be of that node, and only if it says so itself.
package client
