/* A certificate that only its file makes trusted (fake_s3_internal.h). */
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "tests/objects/fake_s3_internal.h"
#include "tests/test.h"

static void add_extension(X509 *certificate, int nid, const char *value)
{
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, nid, value);
    assert_non_null(extension);
    assert_int_equal(1, X509_add_ext(certificate, extension, -1));
    X509_EXTENSION_free(extension);
}

static char *text_of(BIO *from)
{
    char *bytes = NULL;
    long len = BIO_get_mem_data(from, &bytes);
    char *text = strndup(bytes, (size_t)len);
    BIO_free(from);
    return text;
}

static X509 *sign(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    assert_non_null(certificate);
    assert_int_equal(1, X509_set_version(certificate, 2));
    (void)ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
    (void)X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_NAME *name = X509_get_subject_name(certificate);
    (void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                     (const unsigned char *)"fake", -1, -1, 0);
    (void)X509_set_issuer_name(certificate, name);
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate, NID_subject_alt_name, "IP:127.0.0.1");
    assert_int_equal(1, X509_set_pubkey(certificate, key));
    assert_int_not_equal(0, X509_sign(certificate, key, EVP_sha256()));
    return certificate;
}

void fake_certificate(char **ret_key, char **ret_certificate)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *key_text = BIO_new(BIO_s_mem());
    BIO *text = BIO_new(BIO_s_mem());
    assert_non_null(key);
    X509 *certificate = sign(key);
    assert_int_equal(
        1, PEM_write_bio_PrivateKey(key_text, key, NULL, NULL, 0, NULL, NULL));
    assert_int_equal(1, PEM_write_bio_X509(text, certificate));
    X509_free(certificate);
    EVP_PKEY_free(key);
    *ret_key = text_of(key_text);
    *ret_certificate = text_of(text);
}
