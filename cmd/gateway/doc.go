// Command gateway is Sallyport: the server, a try-out of it on one machine, and what an operator needs beside it.
//
// It owns the command line, reading the settings, and putting the packages together in serve: who is given what,
// what starts before what, and what ends before what. It holds no behaviour of the gateway itself.
//
// Every command writes data on standard output and words for people on standard error, takes --json and --quiet,
// and exits with 0 when it did what was asked, 1 when it failed, 2 when it was asked wrongly.
package main
