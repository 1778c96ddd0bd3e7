// An application with the Arduino core's main and timers: samples come in over Serial, results go out.
// Before every 32 bytes of input it sends 'R', so that its 64-byte receive buffer never overflows.
#include "app_model.h"

#ifdef MODEL_STEPS
static MODEL(_input) piece[MODEL_STEP_INPUTS];
#else
static MODEL(_input) piece[MODEL_INPUTS];
#endif
static MODEL(_output) result[MODEL_OUTPUTS];

static void receive(uint8_t *to, uint16_t bytes) {
    for (uint16_t n = 0; n < bytes; ++n) {
        if (n % 32 == 0) Serial.write('R');
        while (!Serial.available()) {
        }
        to[n] = Serial.read();
    }
}

void setup() { Serial.begin(115200); }

void loop() {
    const unsigned long begun = millis();
    delay(3);  // timer 0 and its interrupt are the core's, and run
#ifdef MODEL_STEPS
    MODEL(_begin)();
    for (uint16_t n = 0; n < MODEL_STEPS; ++n) {
        receive(reinterpret_cast<uint8_t *>(piece), sizeof piece);
        MODEL(_step_codes)(piece);
    }
    const int found = MODEL(_finish_codes)(result);
#else
    receive(reinterpret_cast<uint8_t *>(piece), sizeof piece);
    const int found = MODEL(_run)(piece, result);
#endif
    Serial.write('=');
    Serial.write(static_cast<uint8_t>(found));
    Serial.write(reinterpret_cast<uint8_t *>(result), sizeof result);
    Serial.write(millis() - begun >= 3 ? 'T' : 't');
}
