// The worked example of the MinUn paper (appendix B): a linear classifier of two features.
//
//   t1 = W1 X1 = -6.6956,  t2 = t1 + B1 = -6.5495  for X1 = (1.185109, -2.206466); the paper prints -6.695247 and -6.549199
//
// With 3 bytes of RAM instead of the 4 of all-16-bit, t1 keeps 16 bits and t2 gets 8.

input X1 = (2, 1) in [-2.5, 2.5] in
let W1 = [[-2.139562, 1.885351]] in
let B1 = [[0.146048]] in
let t1 = W1 * X1 in
let t2 = t1 + B1 in
t2
