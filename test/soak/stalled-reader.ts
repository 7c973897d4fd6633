import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startDesk } from './desk.js';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    megabytes: { type: 'string', default: '1024' },
  },
});
const MB = 2 ** 20;
const PIECE = 'x'.repeat(16 * 1024);
/**
 * The buffers of the system on the way from the provider to the reader are full when nothing was
 * taken for so many seconds: on a busy machine they fill for longer.
 */
const FULL_AFTER_S = 5;
const LONGEST_FILLING_S = 60;
/** The seconds after which the reader looks again: it is cut off by then. */
const LATER_S = 5;
/**
 * What the system may keep on the two ways, from the provider to the desk and from there to the
 * reader, if it does not tell the size of its buffers. It grows them whenever it likes.
 */
const USUAL_BUFFERS = 2 * 10 * MB;
/** How much the desk may grow while its reader stands still. */
const MOST_GROWTH_MB = 32;

await stalled(Number(values.seconds), Number(values.megabytes));

/**
 * Offers the desk a long answer while its reader takes nothing, and fails where the desk reads on,
 * grows, or keeps the reader longer than it should.
 */
async function stalled(seconds: number, megabytes: number): Promise<void> {
  const provider = await endlessProvider(megabytes * MB);
  const desk = await startDesk({
    OPENAI_BASE_URL: provider.baseURL,
    TOOLLOOP_MODEL: 'endless',
    OPENAI_API_KEY: 'sk-soak',
  });
  await desk.vitals();
  const idle = await residentMb(desk.pid);
  const reader = await deafReader(desk.url);
  const filling = await secondsUntilFull(() => provider.sent());
  const began = performance.now();
  const [full, resident] = [provider.sent(), await residentMb(desk.pid)];
  let most = resident;
  while (performance.now() - began < (seconds + LATER_S) * 1_000) {
    await wait(1_000);
    most = Math.max(most, await residentMb(desk.pid));
  }
  const more = provider.sent() - full;
  reader.resume(); // a socket that is paused does not tell that it was closed
  const cut = await Promise.race([
    once(reader, 'close').then(() => (performance.now() - began) / 1_000),
    wait(30_000, undefined),
  ]);
  await desk.stop();
  provider.close();
  console.log(
    [
      `${megabytes} MB offered, ${(full / MB).toFixed(1)} MB taken in ${filling} s (the buffers of the system among them), ${(more / 1024).toFixed(0)} KB in the ${seconds + LATER_S} s behind them; `,
      `memory ${idle.toFixed(0)} MB before, ${resident.toFixed(0)} MB when full, at most ${most.toFixed(0)} MB; `,
      cut === undefined
        ? 'the reader was not cut off'
        : `the reader was cut off before ${cut.toFixed(0)} s`,
    ].join(''),
  );
  const buffers = await buffersOfSystem();
  const problems = [
    ...(full + more <= buffers
      ? []
      : [
          `MISSED: ${full + more} bytes were read for a reader that stands still, and the system keeps ${buffers} at most.`,
        ]),
    ...(most - idle <= MOST_GROWTH_MB
      ? []
      : [`MISSED: the desk grew by ${(most - idle).toFixed(0)} MB.`]),
    ...(cut !== undefined && cut < seconds + 15 ? [] : ['MISSED: the reader was not cut off.']),
  ];
  for (const problem of problems) console.error(problem);
  if (problems.length > 0) process.exitCode = 1;
}

/** Waits until nothing more is taken, and returns the seconds in which something was. */
async function secondsUntilFull(sent: () => number): Promise<number> {
  for (let [second, last, taken] = [1, 0, 0]; second <= LONGEST_FILLING_S; second += 1) {
    await wait(1_000);
    if (sent() > taken) last = second;
    taken = sent();
    if (taken > 0 && second - last >= FULL_AFTER_S) return last;
  }
  return LONGEST_FILLING_S;
}

/** A provider of chat completions with a long answer, as fast as it is read. */
async function endlessProvider(
  bytes: number,
): Promise<{ readonly baseURL: string; sent(): number; close(): void }> {
  let sent = 0;
  const answer = async (response: ServerResponse): Promise<void> => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const choices = [{ index: 0, delta: { content: PIECE }, finish_reason: null }];
    const chunk = `data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model: 'endless', choices })}\n\n`;
    let wake: (() => void) | undefined;
    for (const event of ['drain', 'close']) response.on(event, () => wake?.());
    for (; sent < bytes && !response.destroyed; sent += chunk.length) {
      if (!response.write(chunk)) await new Promise<void>((resolve) => (wake = resolve));
    }
    response.end('data: [DONE]\n\n');
  };
  const server = createServer((request, response) => {
    request.resume();
    answer(response).catch(() => response.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { baseURL: `http://127.0.0.1:${port}/v1`, sent: () => sent, close };
}

/** A client that asks and then takes nothing of the answer. */
async function deafReader(url: string): Promise<Socket> {
  const { port, host } = new URL(url);
  const body = '{"message":"Tell me everything."}';
  const head = `POST /chat HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer demo-alice\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
  const socket = connect(Number(port), '127.0.0.1');
  socket.on('error', () => undefined).pause();
  await once(socket, 'connect');
  socket.write(head + body);
  return socket;
}

/** The bytes that the system keeps on both ways at most, in the buffers of four sockets. */
async function buffersOfSystem(): Promise<number> {
  const sizes = await Promise.all(
    ['tcp_rmem', 'tcp_wmem'].map((name) =>
      readFile(`/proc/sys/net/ipv4/${name}`, 'utf8').catch(() => ''),
    ),
  );
  const most = sizes.map((text) => Number(text.trim().split(/\s+/).at(-1)));
  const [read = 0, write = 0] = most;
  return read > 0 && write > 0 ? 2 * (read + write) : USUAL_BUFFERS;
}

async function residentMb(pid: number): Promise<number> {
  const [, kilobytes] =
    /VmRSS:\s+(\d+) kB/.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) / 1024;
}
