/* A shared object without a table of steps. */
int forty_two(void);

int forty_two(void)
{
    return 42;
}
