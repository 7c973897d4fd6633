import type { LookupAddress } from 'node:dns';
import { lookup as systemLookup } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { ToolError } from '@toolloop/core';
import { isPublicAddress } from './public-address.js';

/** Finds the addresses of a host name. */
export type HostLookup = (hostname: string) => Promise<readonly LookupAddress[]>;

export interface EgressOptions {
  /** Only these hosts: `example.com`, or `*.example.com` for the hosts below it. @default every host */
  readonly allowHosts?: readonly string[];
  /** Never these hosts, written as in `allowHosts`; wins over it. @default none */
  readonly denyHosts?: readonly string[];
  /** @default 80 and 443 */
  readonly ports?: readonly number[];
  /** Lets the tool into the machine's own network, metadata services included. For tests and closed networks. @default false */
  readonly allowPrivateAddresses?: boolean;
  /** Replaces the system's resolver. What it finds is checked all the same. */
  readonly lookup?: HostLookup;
}

/**
 * Keeps a model from reaching what only this machine can reach. {@link lookup} resolves, checks and hands the checked addresses to the socket in one
 * go, so that a name cannot point elsewhere between the check and the connection.
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

  /** Checks all of an address that can be checked without DNS; `base` is the page it was found on. Throws a `ToolError`. */
  check(address: string, base?: URL): URL {
    const url = URL.parse(address, base?.href);
    if (!url) throw new ToolError('That is not a web address. Give it in full, such as https://example.com/page.');
    if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new ToolError('Only http and https addresses can be read.');
    if (url.username || url.password) throw new ToolError('Leave the user name and password out of the address.');
    const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
    if (!this.ports.includes(port)) throw new ToolError(`Port ${port} may not be read. Use one of: ${this.ports.join(', ')}.`);
    this.checkHost(normalized(url.hostname));
    return url;
  }

  /** For the `lookup` option of a socket. Refuses a name as soon as one of its addresses may not be reached. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    void this.answer(hostname, options.all === true, callback);
  };

  private async answer(hostname: string, all: boolean, callback: Parameters<LookupFunction>[2]): Promise<void> {
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
    if (isIP(literal) && !this.isAllowed(literal)) throw notPublic(); // a socket looks no literal up
    const listed = this.allowHosts === undefined || this.allowHosts.some((entry) => covers(entry, host));
    if (!listed || this.denyHosts.some((entry) => covers(entry, host)))
      throw new ToolError('This host may not be read. Use another source, or answer without it.');
  }
}

/** Says no more than that: an internal address is nothing for a model to read. */
function notPublic(): ToolError {
  return new ToolError('This host is not on the public internet, so it may not be read. Use another source, or answer without it.');
}

function normalized(host: string): string {
  return host.toLowerCase().replace(/\.$/, '');
}

function covers(entry: string, host: string): boolean {
  return entry.startsWith('*.') ? host.endsWith(entry.slice(1)) : host === entry;
}
