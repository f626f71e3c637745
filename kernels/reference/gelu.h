#pragma once

namespace medley {

// 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) and its derivative.
double Gelu(double x);
double GeluGradient(double x);

}  // namespace medley
