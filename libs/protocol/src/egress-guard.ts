import type { LookupAddress } from 'node:dns';
import { lookup as systemLookup } from 'node:dns/promises';
import { BlockList, isIP, isIPv4, isIPv6, type LookupFunction } from 'node:net';
import { ToolError } from './errors.js';

/**
 * Keeps a model from reaching addresses that only this machine can reach. {@link lookup} resolves,
 * checks and hands the checked addresses to the socket in one go, so that a name cannot point
 * elsewhere between the check and the connection.
 */
export class EgressGuard {
  private readonly allowHosts: readonly string[] | undefined;
  private readonly denyHosts: readonly string[];
  private readonly ports: readonly number[];
  private readonly isAllowed: (address: string) => boolean;
  private readonly resolve: HostLookup;

  constructor(options: EgressOptions = {}) {
    this.allowHosts = options.allowHosts?.map(normalized);
    this.denyHosts = options.denyHosts?.map(normalized) ?? [];
    this.ports = options.ports ?? [80, 443];
    this.isAllowed = options.allowPrivateAddresses ? () => true : isPublicAddress;
    this.resolve = options.lookup ?? ((hostname) => systemLookup(hostname, { all: true }));
  }

  /**
   * Checks an address as far as possible without DNS.
   *
   * @param base the page that the address was found on
   * @throws ToolError if the address may not be read
   */
  check(address: string, base?: URL): URL {
    const url = URL.parse(address, base?.href);
    if (!url)
      throw new ToolError(
        'That is not a web address. Give it in full, such as https://example.com/page.',
      );
    if (url.protocol !== 'http:' && url.protocol !== 'https:')
      throw new ToolError('Only http and https addresses can be read.');
    if (url.username || url.password)
      throw new ToolError('Leave the user name and password out of the address.');
    const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
    if (!this.ports.includes(port))
      throw new ToolError(`Port ${port} may not be read. Use one of: ${this.ports.join(', ')}.`);
    this.checkHost(normalized(url.hostname));
    return url;
  }

  /**
   * Resolves a host name, as the `lookup` option of a socket. Refuses a name as soon as one of its
   * addresses may not be reached.
   */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    void this.answer(hostname, options.all === true, callback);
  };

  private async answer(
    hostname: string,
    all: boolean,
    callback: Parameters<LookupFunction>[2],
  ): Promise<void> {
    try {
      const [first, ...others] = await this.addressesOf(hostname);
      if (all) callback(null, [first, ...others]);
      else callback(null, first.address, first.family);
    } catch (error) {
      callback(error instanceof Error ? error : new Error('The lookup failed.'), '');
    }
  }

  private async addressesOf(hostname: string): Promise<[LookupAddress, ...LookupAddress[]]> {
    const [first, ...others] = await this.resolve(hostname);
    if (!first) throw new ToolError('The host has no address. Check its spelling.');
    if (![first, ...others].every(({ address }) => this.isAllowed(address))) throw notPublic();
    return [first, ...others];
  }

  private checkHost(host: string): void {
    const literal = host.replace(/^\[(.*)\]$/, '$1');
    // a socket looks no literal up
    if (isIP(literal) && !this.isAllowed(literal)) throw notPublic();
    const listed =
      this.allowHosts === undefined || this.allowHosts.some((entry) => covers(entry, host));
    if (!listed || this.denyHosts.some((entry) => covers(entry, host)))
      throw new ToolError('This host may not be read. Use another source, or answer without it.');
  }
}

/** Finds the addresses of a host name. */
export type HostLookup = (hostname: string) => Promise<readonly LookupAddress[]>;

export interface EgressOptions {
  /**
   * The only hosts that may be reached: `example.com`, or `*.example.com` for the hosts below it.
   * @default every host
   */
  readonly allowHosts?: readonly string[];
  /** The hosts that may not be reached, written as in `allowHosts`; wins over it. @default none */
  readonly denyHosts?: readonly string[];
  /** The ports that may be reached. @default 80 and 443 */
  readonly ports?: readonly number[];
  /**
   * Allows addresses of the machine's own network, metadata services included. For tests and closed
   * networks. @default false
   */
  readonly allowPrivateAddresses?: boolean;
  /**
   * The resolver of host names. The addresses that it finds are checked all the same. @default the
   * system's
   */
  readonly lookup?: HostLookup;
}

/** Makes the error of an internal address, which it does not repeat: the model must not read it. */
function notPublic(): ToolError {
  return new ToolError(
    'This host is not on the public internet, so it may not be read. Use another source, or answer without it.',
  );
}

function normalized(host: string): string {
  return host.toLowerCase().replace(/\.$/, '');
}

function covers(entry: string, host: string): boolean {
  return entry.startsWith('*.') ? host.endsWith(entry.slice(1)) : host === entry;
}

/**
 * IANA's IPv4 special-purpose registry, multicast, and the address at which Azure serves a machine
 * its own secrets.
 */
const NOT_PUBLIC_V4: readonly (readonly [network: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['168.63.129.16', 32],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
];

/** The special parts of 2000::/3: protocol assignments with Teredo, documentation, 6to4, AS112. */
const NOT_PUBLIC_V6: readonly (readonly [network: string, prefix: number])[] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
];

const specialV4 = new BlockList();
for (const [network, prefix] of NOT_PUBLIC_V4) specialV4.addSubnet(network, prefix, 'ipv4');
const specialV6 = new BlockList();
for (const [network, prefix] of NOT_PUBLIC_V6) specialV6.addSubnet(network, prefix, 'ipv6');
const globalV6 = new BlockList();
globalV6.addSubnet('2000::', 3, 'ipv6');

/**
 * Tells whether an address belongs to the public internet. For IPv6 only 2000::/3 does: any address
 * outside of it is loopback, local, or a form of an IPv4 address (mapped, compatible, NAT64), and
 * counts as not public, whatever address it stands for.
 */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !specialV4.check(address, 'ipv4');
  if (!isIPv6(address) || address.includes('%')) return false;
  return globalV6.check(address, 'ipv6') && !specialV6.check(address, 'ipv6');
}
