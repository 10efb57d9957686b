// Package host runs policies in processes of their own and keeps them running. A Plugin is a policy.Policy, and a policy.Observer; whoever
// uses it need not know that another process decides.
//
// # What is checked
//
// A plugin is an executable with an absolute path and a known SHA-256, and so are the files it reads as code (an interpreter's checksum says
// nothing about its script). They, and the folders above them, must be writable by nobody but root and our own user: else the checksum could
// be that of another file than the one that runs. All of it is checked again at each start of the process.
//
// # What a plugin gets
//
// An environment of a few harmless variables and those that its Spec names. Its configuration by call, never by environment. A standard
// input that ends when the host is gone, so that any language can watch for that with one read. A folder for its socket. Both sides prove
// with a certificate made for that one start that they are who they were.
//
// # What a plugin can do to the host
//
// Nothing but fail. Its output is read in bounded lines at a bounded rate; its messages are bounded; its verdicts are checked; it is killed
// with all of its process group when it does not start, does not answer health checks, or ends a stream. A call ends at its deadline
// whatever the plugin does. A process that ended is started again, later each time; after several starts that never became healthy only every
// half a minute.
//
// Plugins need Unix. On Linux they die with the host also when it is killed; elsewhere those that watch standard input do, which the SDK
// sees to.
package host
