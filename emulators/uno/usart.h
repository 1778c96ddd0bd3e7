// USART0 of the ATmega328P (datasheet chapter 20), asynchronous mode, in place of simavr 1.6's, which charges eleven bits for an
// 8N1 frame, has no transmit double buffer, a receive FIFO of 64 bytes and sees U2X only if it is written before UBRR.
#pragma once
#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <stdbool.h>
#include <stdint.h>

enum { QUEUE_BYTES = 65536, LIFTED_BYTE_CYCLES = 40 };

struct byte_queue {
    uint8_t data[QUEUE_BYTES];
    uint32_t head, tail;  // free-running; head - tail bytes are queued
};

static inline uint32_t queue_used(const struct byte_queue *queue) { return queue->head - queue->tail; }
static inline uint32_t queue_free(const struct byte_queue *queue) { return QUEUE_BYTES - queue_used(queue); }
static inline void queue_push(struct byte_queue *queue, uint8_t byte) { queue->data[queue->head++ % QUEUE_BYTES] = byte; }
static inline uint8_t queue_pop(struct byte_queue *queue) { return queue->data[queue->tail++ % QUEUE_BYTES]; }

enum rx_state { RX_IDLE, RX_FRAME, RX_GAP, RX_LIFTED };

struct usart {
    avr_t *avr;
    avr_uart_t *vectors;  // simavr's own record: its interrupt vectors stay in use
    bool lifted;          // flow-controlled bytes of LIFTED_BYTE_CYCLES instead of the wire's timing
    struct byte_queue to_board, to_host;

    uint8_t rx_fifo[2], rx_count, rx_shift, rx_byte;
    bool rx_shift_full, rx_lost;
    bool rx_was_enabled;  // since reset; before that the host's bytes wait: a real host leaves a board time to boot
    enum rx_state rx_state;

    uint8_t tx_shift, tx_buffer;
    bool tx_busy, tx_buffer_full;

    uint64_t rx_bytes, tx_bytes, overruns;
};

void usart_attach(struct usart *usart, avr_t *avr, bool lifted);
void usart_reset(struct usart *usart);

// Call after pushing to `to_board`: puts the next byte on the wire if it is free.
void usart_kick(struct usart *usart);

// True if no byte is moving and none will move unless the firmware or the host acts.
bool usart_is_quiet(const struct usart *usart);
