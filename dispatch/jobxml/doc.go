// Package jobxml reads the job.xml of Consumer Dispatcher, and writes what it says as the section dispatch of shardmq's
// configuration.
//
//   - tree.go: the XML as elements with their lines, bounded in all directions.
//   - read.go, job.go: what the elements say, by the rules of Consumer Dispatcher 0.1.5; whatever is wrong is a Problem,
//     and what is not carried over as it is, a Note.
//   - yaml.go: the configuration.
//
// The package connects to nothing and knows no file.
package jobxml
