import type { IncomingHttpHeaders } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';

/** The certificate of a host that exists in tests alone, and its key. */
const HOST = 'hooks.example';
const CERTIFICATE = pem(
  'CERTIFICATE',
  'MIIBoDCCAUegAwIBAgIUcFFixQWgnQUu3FAb1tjPKszRBGEwCgYIKoZIzj0EAwIwGDEWMBQGA1UEAwwNaG9va3MuZXhhbXBsZTAgFw0yNjExMjUxNjA1MzdaGA8yMTI2MTEwMTE2MDUzN1owGDEWMBQGA1UEAwwNaG9va3MuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCD98MxOaDM8bMmKMogKu+QeD8ht9UL7Wn9/NEztbkyqoa8BTZE09FEHL2BD1LlygTWsyRIeUJni3yrGVcA2lPajbTBrMB0GA1UdDgQWBBRjF1kDoNN9JVWiOAOSUXE2lFzHBTAfBgNVHSMEGDAWgBRjF1kDoNN9JVWiOAOSUXE2lFzHBTAPBgNVHRMBAf8EBTADAQH/MBgGA1UdEQQRMA+CDWhvb2tzLmV4YW1wbGUwCgYIKoZIzj0EAwIDRwAwRAIgMTR/qA8q6n93eaMowiT30o6wWz3UlEWowhC4/utSAvICIE2WJ0P4JT/PntbQhR/fugJCO7HkLrgPyhQumry71s8z',
);
const KEY = pem(
  'PRIVATE KEY',
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXIr6QN4f/rbb5Dv9S/vxtcPhlAfkFyzdqfVg9xfyZxqhRANCAAQg/fDMTmgzPGzJijKICrvkHg/IbfVC+1p/fzRM7W5MqqGvAU2RNPRRBy9gQ9S5coE1rMkSHlCZ4t8qxlXANpT2',
);
function pem(what: string, base64: string): string {
  return `-----BEGIN ${what}-----\n${base64.replaceAll(/(.{64})/g, '$1\n')}\n-----END ${what}-----\n`;
}

const toThisMachine = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]);

/** A request that was received. */
export interface ReceivedRequest {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/**
 * A receiver of webhooks on this machine, by https, under a name and with a certificate of its own.
 */
export class HttpsReceiver {
  readonly got: ReceivedRequest[] = [];
  answer = { status: 204, location: '' };

  private constructor(private readonly server: Server) {}

  static async open(): Promise<HttpsReceiver> {
    const server = createServer({ key: KEY, cert: CERTIFICATE });
    const receiver = new HttpsReceiver(server);
    server.on('request', (request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        receiver.got.push({
          url: request.url ?? '',
          headers: request.headers,
          body: Buffer.concat(parts).toString(),
        });
        response.writeHead(receiver.answer.status, { location: receiver.answer.location }).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return receiver;
  }

  /** The options of a notifier that tells this receiver. */
  get options() {
    const { port } = this.server.address() as AddressInfo;
    const egress = { ports: [port], allowPrivateAddresses: true, lookup: toThisMachine };
    return { url: `https://${HOST}:${port}/desk`, egress, ca: CERTIFICATE };
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
