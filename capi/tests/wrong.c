/* Everything that a caller can get wrong: an error with words, and what was to be written untouched. */
#include <collcost.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define HOLD(what)                                                            \
    do {                                                                      \
        if (!(what)) {                                                        \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #what, collcost_error()); \
            return 1;                                                         \
        }                                                                     \
    } while (0)

static void *other(void *unused)
{
    (void)unused;
    /* Errors are of a thread: the other one's are not seen here. */
    return collcost_error()[0] == '\0' ? NULL : (void *)1;
}

int main(void)
{
    collcost_question *question = NULL;
    collcost_expectation expected, untouched;
    collcost_ideal ideal;
    char name[COLLCOST_NAME];
    pthread_t thread;
    void *seen = (void *)1;

    memset(&expected, 7, sizeof expected);
    memset(&untouched, 7, sizeof untouched);
    HOLD(collcost_question_new("allreduse", 8, &question) == COLLCOST_INPUT && question == NULL);
    HOLD(strstr(collcost_error(), "allreduce") != NULL);
    HOLD(collcost_question_new(NULL, 8, &question) == COLLCOST_INPUT);
    HOLD(collcost_question_new("\xff", 8, &question) == COLLCOST_INPUT);
    HOLD(collcost_question_new("allreduce", 8, NULL) == COLLCOST_INPUT);
    HOLD(pthread_create(&thread, NULL, other, NULL) == 0 && pthread_join(thread, &seen) == 0);
    HOLD(seen == NULL);

    HOLD(collcost_question_new("ncclAllReduce", 1 << 20, &question) == COLLCOST_OK);
    HOLD(collcost_question_set(question, "profil", "dgx-h100") == COLLCOST_INPUT);
    HOLD(strstr(collcost_error(), "profile") != NULL);
    HOLD(collcost_question_set(question, "n", "many") == COLLCOST_INPUT);
    HOLD(collcost_question_set(question, NULL, "8") == COLLCOST_INPUT);
    HOLD(collcost_question_set(NULL, "n", "8") == COLLCOST_INPUT);
    HOLD(collcost_question_set_size(NULL, 8) == COLLCOST_INPUT);
    HOLD(collcost_question_set(question, "n", "8") == COLLCOST_OK);
    HOLD(collcost_expect(question, NULL) == COLLCOST_INPUT);
    HOLD(collcost_expect(NULL, &expected) == COLLCOST_INPUT);
    HOLD(memcmp(&expected, &untouched, sizeof expected) == 0);
    HOLD(collcost_price(question, "rign", &ideal) == COLLCOST_INPUT);
    HOLD(collcost_choose(question, "ncl", name) == COLLCOST_INPUT);
    HOLD(collcost_choose(question, "nccl", name) == COLLCOST_OK && name[0] != '\0');
    HOLD(collcost_choose(question, "oneccl", name) == COLLCOST_INPUT);
    HOLD(collcost_choose(question, "rules-file:/nowhere", name) == COLLCOST_INPUT);
    HOLD(strstr(collcost_error(), "`/nowhere` cannot be read") != NULL);
    HOLD(collcost_expect(question, &expected) == COLLCOST_OK && expected.time_s > 0);
    memset(&expected, 7, sizeof expected);
    HOLD(collcost_question_set_size(question, UINT64_MAX) == COLLCOST_OK);
    HOLD(collcost_expect(question, &expected) == COLLCOST_INPUT);
    HOLD(strstr(collcost_error(), "below 8 EiB") != NULL);
    HOLD(memcmp(&expected, &untouched, sizeof expected) == 0);
    collcost_question_free(question);
    collcost_question_free(NULL);
    puts("all refused");
    return 0;
}
