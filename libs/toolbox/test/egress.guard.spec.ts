import type { LookupAddress } from 'node:dns';
import { describe, expect, it } from '@jest/globals';
import { ToolError } from '@toolloop/core';
import * as fc from 'fast-check';
import { EgressGuard, isPublicAddress, type EgressOptions } from '@toolloop/protocol/egress';

function resolvingTo(...answers: readonly (readonly string[])[]): EgressOptions['lookup'] {
  let asked = 0;
  return () => {
    const addresses = answers[Math.min(asked, answers.length - 1)] ?? [];
    asked += 1;
    return Promise.resolve(
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  };
}

/** As a socket asks. */
function look(guard: EgressGuard, all: boolean): Promise<string | LookupAddress[]> {
  return new Promise((resolve, reject) => {
    guard.lookup('host.test', { all }, (error, address) =>
      error ? reject(error) : resolve(address),
    );
  });
}

const INTERNAL = `
  0.0.0.0 10.1.2.3 100.64.0.1 100.100.100.200 127.0.0.1 127.255.255.254 168.63.129.16 169.254.169.254 172.16.0.1
  172.31.255.255 192.0.0.192 192.0.2.1 192.88.99.1 192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
  239.255.255.250 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 ::ffff:0:7f00:1
  64:ff9b::7f00:1 64:ff9b:1::1 100::1 2001::1 2001:db8::1 2002:7f00:1:: 3fff::1 5f00::1 fc00::1
  fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 no address
`;
const PUBLIC = [
  '1.1.1.1',
  '8.8.8.8',
  '172.32.0.1',
  '100.128.0.1',
  '2606:4700::1111',
  '2a00:1450:4001::200e',
];

describe('an address', () => {
  it.each(INTERNAL.trim().split(/\s+/))('%s is not public', (address) =>
    expect(isPublicAddress(address)).toBe(false),
  );
  it.each(PUBLIC)('%s is public', (address) => expect(isPublicAddress(address)).toBe(true));

  it('is never public in the form of an IPv4 address inside an IPv6 one', () => {
    const v4 = fc.ipV4().map((text) => text.split('.').map(Number));
    fc.assert(
      fc.property(
        v4,
        fc.constantFrom('::', '::ffff:', '::ffff:0:', '64:ff9b::', '64:ff9b:1::'),
        ([a = 0, b = 0, c = 0, d = 0], prefix) => {
          expect(
            isPublicAddress(`${prefix}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`),
          ).toBe(false);
        },
      ),
    );
  });
});

describe('a web address', () => {
  const guard = new EgressGuard();

  it.each([
    'http://127.0.0.1/',
    'http://2130706433/',
    'http://0x7f000001/',
    'http://0177.0.0.1/',
    'http://127.1/',
    'http://127.0.0.1./',
    'http://１２７.0.0.1/',
    'http://127。0。0。1/',
    'http://%31%32%37.0.0.1/',
    'http://0/',
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::127.0.0.1]/',
    'http://[64:ff9b::169.254.169.254]/',
    'http://169.254.169.254/latest/meta-data/',
  ])('%s is refused before any lookup', (address) => {
    expect(() => guard.check(address)).toThrow(/not on the public internet/);
  });

  it.each([
    ['file:///etc/passwd', /Only http and https/],
    ['javascript:alert(1)', /Only http and https/],
    ['ftp://example.com/', /Only http and https/],
    ['/etc/passwd', /in full/],
    ['', /in full/],
    ['https://user:hunter2@example.com/', /user name and password/],
    ['https://user@example.com/', /user name and password/],
    ['https://example.com:22/', /Port 22/],
    ['http://example.com:6379/', /Port 6379/],
  ])('%s is refused', (address, message) => {
    expect(() => guard.check(address)).toThrow(message);
    expect(() => guard.check(address)).not.toThrow(/hunter2/);
  });

  it.each([
    'https://example.com',
    'http://example.com:443/',
    'https://8.8.8.8/',
    'https://[2606:4700::1111]/',
  ])('%s is fine', (address) => {
    expect(guard.check(address).href).toBe(new URL(address).href);
  });

  it.each([
    ['https://docs.example.com/', true],
    ['https://DOCS.EXAMPLE.COM./', true],
    ['https://a.b.example.org/', true],
    ['https://example.org/', false],
    ['https://secret.example.org/', false],
    ['https://notexample.org/', false],
    ['https://docs.example.com.evil.test/', false],
  ])('%s obeys the lists of hosts: %s', (address, fine) => {
    const listed = new EgressGuard({
      allowHosts: ['docs.example.com', '*.Example.org'],
      denyHosts: ['secret.example.org.'],
    });
    const refused = () => {
      try {
        return listed.check(address) === undefined;
      } catch {
        return true;
      }
    };
    expect(refused()).toBe(!fine);
  });
});

describe('a lookup', () => {
  it('hands the checked addresses to the socket', async () => {
    const guard = new EgressGuard({ lookup: resolvingTo(['1.1.1.1', '2606:4700::1111']) });
    expect(await look(guard, true)).toEqual([
      { address: '1.1.1.1', family: 4 },
      { address: '2606:4700::1111', family: 6 },
    ]);
    expect(await look(guard, false)).toBe('1.1.1.1');
  });

  it.each([
    [['10.0.0.1']],
    [['1.1.1.1', '127.0.0.1']],
    [['::ffff:10.0.0.1']],
    [['2606:4700::1111', 'fd00::1']],
  ])('refuses %j', async (addresses) => {
    await expect(look(new EgressGuard({ lookup: resolvingTo(addresses) }), true)).rejects.toThrow(
      ToolError,
    );
  });

  it('refuses a name that points inside the second time', async () => {
    const guard = new EgressGuard({ lookup: resolvingTo(['1.1.1.1'], ['127.0.0.1']) });
    expect(await look(guard, false)).toBe('1.1.1.1');
    await expect(look(guard, false)).rejects.toThrow(/not on the public internet/);
  });

  it('does not tell the address inside', async () => {
    const guard = new EgressGuard({ lookup: resolvingTo(['10.20.30.40']) });
    await expect(look(guard, true)).rejects.not.toThrow(/10\.20/);
  });

  it('refuses a name without an address', async () => {
    await expect(look(new EgressGuard({ lookup: resolvingTo([]) }), true)).rejects.toThrow(
      /no address/,
    );
  });
});
