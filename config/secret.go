package config

import masked "github.com/shardmq/shardmq/config/secret"

// mask is printed in place of a secret, whatever its length.
const mask = masked.Mask

// Secret is a string that prints as a mask with every formatting verb and in
// every text encoding. Convert it with string(s) where the value is needed.
type Secret = masked.String
