/* A shared object that is no step module: it lists no steps. */
int coxi_test_nothing(void);

int coxi_test_nothing(void)
{
    return 0;
}
