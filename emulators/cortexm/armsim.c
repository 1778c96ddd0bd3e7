/* armsim: an Arduino Due or an STM32 board made of software. See README.md for what its numbers mean. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { NEVER = 1 };

static const struct chip *const chips[] = {&sam3x8e, &stm32h747, &stm32h745, &stm32l4r5, &stm32g0b1, &stm32u575, &rp2040, &rp2350, &nrf52840, &nrf52840_nano,
                                           &stm32l4r5_foreign, &stm32f746, &stm32h7a3, &stm32g0b1_foreign,
                                           &stm32u575_foreign, &stm32u385, &rp2040_foreign};

struct options {
    const struct chip *chip;
    const char *image, *flash_file, *link, *trace, *pins, *lines, *stacks, *drive;
    bool true_uart, realtime, no_autoreset, boot0, single_bank;
    int64_t worn_offset, budget;
    uint32_t supply, bus_cycles;
};

static struct machine machine;

static _Noreturn void usage(const char *what, const char *argument) {
    fprintf(stderr, "armsim: %s%s; chips:", what, argument);
    for (size_t i = 0; i < sizeof chips / sizeof *chips; ++i) fprintf(stderr, " %s", chips[i]->name);
    fprintf(stderr, "; usage: armsim --chip NAME --image FILE.bin --link PATH "
            "[--uart true|lifted] [--realtime] [--trace FILE] [--no-autoreset] [--flash-file PATH] [--boot0] [--drive FOLDER] "
            "[--worn OFFSET] [--supply smps|ldo] [--bus CYCLES] [--pins FILE] [--stacks FILE] [--lines FILE] [--budget INSTRUCTIONS] [--single-bank]\n");
    exit(2);
}

static const struct chip *chip_named(const char *name) {
    for (size_t i = 0; i < sizeof chips / sizeof *chips; ++i)
        if (!strcmp(chips[i]->name, name)) return chips[i];
    usage("no such chip: ", name);
}

static bool uart_mode(const char *name) {
    if (strcmp(name, "true") && strcmp(name, "lifted")) usage("--uart is true or lifted, not ", name);
    return !strcmp(name, "true");
}

/* The bit of PWR_CR3 that turns this regulator on. */
static uint32_t supply_named(const char *name) {
    if (!strcmp(name, "smps")) return 1 << 2;
    if (!strcmp(name, "ldo")) return 1 << 1;
    usage("--supply is smps or ldo, not ", name);
}

static int64_t number(const char *text) {
    char *end;
    const unsigned long value = strtoul(text, &end, 0);
    if (!*text || *end) usage("--worn, --bus and --budget take a number, not ", text);
    return value;
}

static void take_value(struct options *o, const char *name, const char *value) {
    if (!strcmp(name, "--chip")) o->chip = chip_named(value);
    else if (!strcmp(name, "--image")) o->image = value;
    else if (!strcmp(name, "--flash-file")) o->flash_file = value;
    else if (!strcmp(name, "--link")) o->link = value;
    else if (!strcmp(name, "--drive")) o->drive = value;
    else if (!strcmp(name, "--trace")) o->trace = value;
    else if (!strcmp(name, "--pins")) o->pins = value;
    else if (!strcmp(name, "--stacks")) o->stacks = value;
    else if (!strcmp(name, "--lines")) o->lines = value;
    else if (!strcmp(name, "--budget")) o->budget = number(value);
    else if (!strcmp(name, "--uart")) o->true_uart = uart_mode(value);
    else if (!strcmp(name, "--supply")) o->supply = supply_named(value);
    else if (!strcmp(name, "--bus")) o->bus_cycles = (uint32_t)number(value);
    else o->worn_offset = number(value);
}

static bool is_known(const char *name) {
    static const char *const known[] = {"--chip", "--image", "--flash-file", "--link", "--trace", "--pins", "--uart", "--worn",
                                        "--supply", "--bus", "--lines", "--budget", "--stacks", "--drive"};
    for (size_t i = 0; i < sizeof known / sizeof *known; ++i)
        if (!strcmp(name, known[i])) return true;
    return false;
}

static struct options parse(int count, char **arguments) {
    struct options o = {.worn_offset = -1};
    for (int i = 1; i < count; ++i) {
        const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : NULL;
        if (!strcmp(name, "--realtime")) { o.realtime = true; continue; }
        if (!strcmp(name, "--no-autoreset")) { o.no_autoreset = true; continue; }
        if (!strcmp(name, "--boot0")) { o.boot0 = true; continue; }
        if (!strcmp(name, "--single-bank")) { o.single_bank = true; continue; }
        if (!is_known(name)) usage("unknown argument: ", name);
        if (!value) usage("no value for ", name);
        take_value(&o, name, value);
        ++i;
    }
    if (!o.chip) usage("no --chip", "");
    if (!o.image && !o.flash_file) usage("no --image and no --flash-file", "");
    if (!o.link) usage("no --link", "");
    return o;
}

static bool on_invalid_access(uc_engine *uc, uc_mem_type type, uint64_t addr, int size, int64_t value, void *user) {
    (void)uc;
    struct machine *m = user;
    if (type == UC_MEM_WRITE_PROT && m->in_rom && m->chip->latch) {
        m->chip->latch(m, (uint32_t)addr, size, value);
        return true;
    }
    m->fault_addr = (uint32_t)addr;
    return false;
}

/* FP registers trap on Unicorn's model until FPEXC is set; the chip's own switch, CPACR, is checked in cycles.c. */
static void set_up(struct machine *m, const struct options *o) {
    static uint8_t nops[0x1000];
    uc_hook hook;
    m->chip = o->chip;
    m->uart.lifted = !o->true_uart;
    m->realtime = o->realtime;
    check(uc_open(UC_ARCH_ARM, UC_MODE_THUMB, &m->uc), "open");
    check(uc_ctl_set_cpu_model(m->uc, m->chip->cpu_model), "processor model");
    map_memory(m);
    m->chip->map_peripherals(m);
    map_core(m);
    check(uc_mem_map_ptr(m->uc, EXCEPTION_RETURN, sizeof nops, UC_PROT_READ | UC_PROT_EXEC, nops), "return page");
    check(uc_hook_add(m->uc, &hook, UC_HOOK_MEM_INVALID, (void *)on_invalid_access, m, (uint64_t)1, (uint64_t)0),
          "fault hook");
    m->registers = locate_registers(m->uc);
    install_block_hook(m);
    m->boot0 = o->boot0;
    m->drive = o->drive;
    m->read_shift = m->chip->timing.read_shift + o->single_bank;
    m->supply = o->supply;
    m->bus_given = o->bus_cycles;
    m->worn_offset = o->worn_offset;
    if (o->flash_file) flash_load_file(m, o->flash_file);
    if (o->image) flash_load_image(m, o->image);
    if (o->trace && !(m->trace = fopen(o->trace, "w"))) usage("cannot write the trace ", o->trace);
    m->budget = o->budget;
    if (o->stacks) m->stacks = stacks_new();
    if (o->lines && !(m->lines = fopen(o->lines, "w"))) usage("cannot write the lines ", o->lines);
    if (o->pins && !(m->pins = fopen(o->pins, "w"))) usage("cannot write the pins ", o->pins);
}

static uint32_t reset_machine(struct machine *m, const char *why) {
    uint32_t vectors[2], zero = 0, ones = ~0u, fpexc = 0x40000000;
    m->total_cycles.typical += m->cycles.typical;
    m->total_cycles.min += m->cycles.min;
    m->total_cycles.max += m->cycles.max;
    m->total_instructions += m->instructions;
    memset(&m->cycles, 0, sizeof m->cycles);
    m->instructions = m->next_event = m->next_service = m->rom_wire_bytes = 0;
    m->taken_typical = m->taken_min = m->taken_max = 0;
    m->code_line[0] = m->code_line[1] = m->literal_line = FLASH_LINE_NONE;
    memset(m->cached_lines, 0xFF, sizeof m->cached_lines);
    memset(m->icache, 0xFF, sizeof m->icache);
    memset(m->dcache, 0xFF, sizeof m->dcache);
    memset(m->art_data, 0xFF, sizeof m->art_data);
    memset(m->shared_lines, 0xFF, sizeof m->shared_lines);
    m->m33_ways = 2;
    m->m33_missed = FLASH_LINE_NONE;
    m0plus_reset(m);
    m->fills = 0;
    m->fill_ends = 0;
    m->last_block = NULL;
    m->open = m->icache_on = m->dcache_on = false;
    reset_core(m);
    uart_reset(m);
    idle_reset(m);
    m->chip->reset(m);
    rom_forget_code(m);
    memcpy(vectors, m->flash + m->chip->image_offset, sizeof vectors);
    m->min_sp = vectors[0];
    if (m->stacks) stacks_restart(m, vectors[1] & ~1u, vectors[0]);
    for (int id = UC_ARM_REG_R0; id <= UC_ARM_REG_R12; ++id) uc_reg_write(m->uc, id, &zero);
    uc_reg_write(m->uc, UC_ARM_REG_PRIMASK, &zero);
    uc_reg_write(m->uc, UC_ARM_REG_CONTROL, &zero);
    uc_reg_write(m->uc, UC_ARM_REG_SP, &vectors[0]);
    uc_reg_write(m->uc, UC_ARM_REG_LR, &ones);
    if (has_fpu(m->chip->core)) uc_reg_write(m->uc, UC_ARM_REG_FPEXC, &fpexc);
    host_hold_reset();
    host_restart_pace(m);
    m->stop = RUN;
    ++m->resets;
    printf("{\"event\":\"reset\",\"why\":\"%s\"}\n", why);
    fflush(stdout);
    return vectors[1];
}

/* One boot, of the program in flash or of the boot ROM, which may end in a program. */
static void boot(struct machine *m) {
    uint32_t pc = reset_machine(m, m->stop_why);
    m->in_rom = m->chip->boots_rom(m);
    if (m->in_rom) pc = m->chip->boot_rom(m);
    m->in_rom = false;
    if (m->stop == RUN) run(m, pc, NEVER);
}

static void report_exit(const struct machine *m, double started) {
    const struct uart *u = &m->uart;
    typedef unsigned long long ull;
    printf("{\"event\":\"exit\",\"cycles\":%llu,\"instructions\":%llu,\"cycles_min\":%llu,\"cycles_max\":%llu,"
           "\"rx_bytes\":%llu,\"tx_bytes\":%llu,\"overruns\":%llu,\"resets\":%llu,\"min_sp\":%u,\"clock_hz\":%u,"
           "\"baud\":%u,\"why\":\"%s\",\"wall_seconds\":%.3f}\n",
           (ull)(m->total_cycles.typical + m->cycles.typical), (ull)(m->total_instructions + m->instructions),
           (ull)(m->total_cycles.min + m->cycles.min), (ull)(m->total_cycles.max + m->cycles.max), (ull)u->rx_bytes,
           (ull)u->tx_bytes, (ull)u->overruns, (ull)m->resets, m->min_sp, m->chip->clock_hz(),
           u->byte_cycles ? (uint32_t)(10ull * m->chip->clock_hz() / u->byte_cycles) : 0, m->stop_why, wall_seconds() - started);
    fflush(stdout);
}

int main(int count, char **arguments) {
    const struct options o = parse(count, arguments);
    const double started = wall_seconds();
    struct machine *m = &machine;
    set_up(m, &o);
    host_open(o.link, !o.no_autoreset);
    printf("{\"event\":\"ready\",\"pty\":\"%s\"}\n", host_pty_name());
    fflush(stdout);
    m->stop_why = "power on";
    do boot(m);
    while (m->stop != STOP_QUIT);
    if (m->trace) fclose(m->trace);
    if (m->pins) fclose(m->pins);
    if (m->lines) fclose(m->lines);
    if (o.stacks && !stacks_write(m, o.stacks)) usage("cannot write the stacks ", o.stacks);
    host_close();
    if (o.flash_file) flash_save_file(m, o.flash_file);
    report_exit(m, started);
    return 0;
}
