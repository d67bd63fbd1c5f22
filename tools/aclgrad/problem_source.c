#include "problem_source.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "tensor_file.h"

const struct layer layers[] = {
    {"dsv3-attention-2k", "attention:q=2048,n1=16,d=128,dr=64,mode=3", "DeepSeek-V3 attention, 16 of 128 heads, 2k"},
    {"dsv3-attention-forward-2k", "attention_forward:q=2048,n1=16,d=128,dr=64,mode=3",
     "DeepSeek-V3 attention, forward, 16 of 128 heads, 2k"},
    {"llama3-attention-4k", "attention:q=4096,n1=8,n2=2,mode=3", "Llama-3 70B attention, 8 of 64 heads, 4k"},
    {"qwen-vl-attention", "attention:q=[256x16],n1=16,d=80", "vision transformer, packed images of 256 patches"},
    {"window-attention-16k", "attention:q=16384,n1=4,n2=1,mode=4,pre=1024,next=0", "sliding window of 1024, 16k"},
    {"dsv32-indexer-4k", "indexer:layout=tnd,q=[512,512],kv=[4096,4096]", "DeepSeek-V3.2 indexer, 1024 rows of 4k"},
    {"dsv32-indexer-32k", "indexer:q=128,kv=32768", "DeepSeek-V3.2 indexer, 128 rows of 32k"},
    {"dsv32-indexer-forward-4k", "indexer_forward:layout=tnd,q=[512,512],kv=[4096,4096]",
     "DeepSeek-V3.2 indexer, forward, 1024 rows of 4k"},
    {"dsv3-moe-ep8", "moe:t=4096,h=7168,e=256,range=[0,4096],rows=4096", "DeepSeek-V3 unpermute, one of 8 ranks"},
    {"mixtral-moe", "moe:t=4096,k=2,h=4096,e=8", "Mixtral unpermute, all experts"},
    {"dsv3-permute-ep8", "moe_permute:t=4096,h=7168,e=256,range=[0,4096]", "DeepSeek-V3 permute, one of 8 ranks"},
    {"dsv3-permute-grad-ep8", "moe_permute_grad:t=4096,h=7168,e=256,range=[0,4096]",
     "DeepSeek-V3 permute, its gradient, one of 8 ranks"},
    {"dsv3-unpermute-ep8", "moe_unpermute:t=4096,h=7168,e=256,range=[0,4096]",
     "DeepSeek-V3 unpermute, forward, one of 8 ranks"},
    {"mixtral-unpermute-grad", "moe_unpermute_grad:t=4096,k=2,h=4096,e=8",
     "Mixtral unpermute, its gradient, by the entry without a window"},
    {NULL, NULL, NULL}};

static bool add_problem(struct problem_list *list, const char *text, const char *kind, const char *only)
{
    struct problem problem, *items;
    for (const struct layer *layer = layers; layer->name; ++layer) {
        text = strcmp(layer->name, text) == 0 ? layer->problem : text;
    }
    if (!problem_parse(text, &problem)) {
        return false;
    }
    char *canonical = NULL;
    bool is_good = !kind || problem_set(&problem, "kind", kind);
    is_good = is_good && (canonical = problem_print(&problem)) != NULL;
    if (is_good && only && fnmatch(only, canonical, 0) != 0) {
        problem_destroy(&problem);
    } else if (is_good && (items = realloc(list->items, (size_t)(list->count + 1) * sizeof *items))) {
        list->items = items;
        items[list->count++] = problem;
    } else {
        problem_destroy(&problem);
        is_good = cli_fail(CLI_USAGE, "out of memory");
    }
    free(canonical);
    return is_good;
}

static bool add_file(struct problem_list *list, const char *path, const char *kind, const char *only)
{
    struct file_bytes file;
    if (!file_map(path, &file)) {
        return false;
    }
    char *text = calloc(file.bytes + 1, 1);
    bool is_good = text || cli_fail(CLI_IO, "%s: out of memory", path);
    if (text && file.bytes) {
        memcpy(text, file.data, file.bytes);
    }
    int number = 0;
    for (char *rest = text; is_good && rest && *rest; ++number) {
        char *line = rest;
        line[strcspn(line, "\n")] == '\n' ? (rest = line + strcspn(line, "\n") + 1) : (rest = NULL);
        line[strcspn(line, "\n#")] = 0;
        line += strspn(line, " \t\r");
        line[strcspn(line, " \t\r")] = 0;
        is_good = !*line || add_problem(list, line, kind, only) || cli_fail_in("%s:%d", path, number + 1);
    }
    free(text);
    file_unmap(&file);
    return is_good;
}

bool problems_read(char **operands, const char *kind, const char *only, struct problem_list *list)
{
    *list = (struct problem_list){NULL, 0};
    bool is_good = true;
    for (; is_good && *operands; ++operands) {
        is_good =
            **operands == '@' ? add_file(list, *operands + 1, kind, only) : add_problem(list, *operands, kind, only);
    }
    if (!is_good) {
        problems_destroy(list);
    }
    return is_good;
}

void problems_destroy(struct problem_list *list)
{
    for (int i = 0; i < list->count; ++i) {
        problem_destroy(&list->items[i]);
    }
    free(list->items);
    *list = (struct problem_list){NULL, 0};
}

bool fail_in_problem(const char *text)
{
    const size_t length = strlen(text);
    return cli_fail_in("%.*s", (int)(length > 0 && text[length - 1] == ':' ? length - 1 : length), text);
}

bool is_problem_text(const char *text)
{
    for (const struct layer *layer = layers; layer->name; ++layer) {
        if (strcmp(layer->name, text) == 0) {
            return true;
        }
    }
    return text[0] == '@' || strchr(text, ':') != NULL;
}

bool call_generate(struct call *call, struct problem *problem, enum fidelity fidelity)
{
    memset(call, 0, sizeof *call);
    call->problem = *problem;
    memset(problem, 0, sizeof *problem);
    return operation_of(call)->generate(call, cli.seed, fidelity);
}

bool call_generate_one(char **operands, const char *kind, struct call *call)
{
    struct problem_list list;
    if (!problems_read(operands, kind, NULL, &list)) {
        return false;
    }
    const bool is_one = list.count == 1 || cli_fail(CLI_USAGE, "got %d problems, want one", list.count);
    const bool is_good = is_one && (call_generate(call, &list.items[0], FIDELITY_EXACT) ||
                                    cli_fail_in("%s", problem_table_of(&call->problem)->name));
    problems_destroy(&list);
    return is_good;
}
