/* The engine by hand with the HAL of STM32Cube, on the LPUART1 of a NUCLEO-L4R5ZI, at the clock it has after a reset. */
#include "firmware/bench/hil_bench.h"
#include "stm32l4xx_hal.h"

HIL_BENCH_CARD("engine=by hand;version=1;model=dense;input=int8 0.5 3;output=int16 0.25 0;arena=14")

static UART_HandleTypeDef uart = {.Instance = LPUART1};

void SysTick_Handler(void) { HAL_IncTick(); }

static int get(void) {
    uint8_t byte;
    return HAL_UART_Receive(&uart, &byte, 1, 0) == HAL_OK ? byte : -1;
}
static void put(uint8_t byte) { HAL_UART_Transmit(&uart, &byte, 1, HAL_MAX_DELAY); }
static uint32_t ticks(void) { return DWT->CYCCNT; }

void HAL_UART_MspInit(UART_HandleTypeDef *of) {
    GPIO_InitTypeDef pins = {.Pin = GPIO_PIN_7 | GPIO_PIN_8, .Mode = GPIO_MODE_AF_PP, .Pull = GPIO_PULLUP, .Alternate = GPIO_AF8_LPUART1};
    (void)of;
    __HAL_RCC_PWR_CLK_ENABLE();
    HAL_PWREx_EnableVddIO2();
    __HAL_RCC_LPUART1_CLK_ENABLE();
    __HAL_RCC_GPIOG_CLK_ENABLE();
    HAL_GPIO_Init(GPIOG, &pins);
}

int main(void) {
    struct hil_bench bench = {.sample_bytes = 8, .output_bytes = 6, .get = get, .put = put, .ticks = ticks};
    HAL_Init();
    uart.Init = (UART_InitTypeDef){.BaudRate = 115200, .WordLength = UART_WORDLENGTH_8B, .Mode = UART_MODE_TX_RX};
    HAL_UART_Init(&uart);
    CoreDebug->DEMCR |= CoreDebug_DEMCR_TRCENA_Msk;
    DWT->CTRL |= DWT_CTRL_CYCCNTENA_Msk;
    bench.clock_hz = HAL_RCC_GetSysClockFreq();
    hil_bench_serve(&bench);
}
