import { LanguageModel, type LoopEvent } from '@toolloop/core';
import { Test } from '@nestjs/testing';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from '../../src/app.module.js';
import { configure } from '../../src/http/configure.js';
import { SETTINGS, type Settings } from '../../src/settings.js';
import { StorageModule } from '../../src/storage.module.js';
import { SystemClock } from '../../src/desk/clock.js';
import { MemoryStorageModule } from './memory-storage.module.js';

interface Replacements {
  readonly settings?: Partial<Settings>;
  readonly model?: LanguageModel;
  readonly clock?: SystemClock;
}

/** The demo, listening on a free port. */
export interface ServedDesk {
  readonly url: string;
  readonly app: NestExpressApplication;
}

const open = new Set<ServedDesk>();

/** Closes every desk that was served, also those of a test that failed half-way. */
export async function closeDesks(): Promise<void> {
  await Promise.all([...open].map(({ app }) => app.close()));
  open.clear();
}

/** Keeps things in a database where the settings name one. */
export async function serve({ settings, model, clock }: Replacements = {}): Promise<ServedDesk> {
  const builder = Test.createTestingModule({ imports: [AppModule] });
  builder
    .overrideProvider(SETTINGS)
    .useValue({ port: 0, allowedHosts: [], allowedOrigins: [], ...settings });
  if (!settings?.databaseUrl && !settings?.dataDir)
    builder.overrideModule(StorageModule).useModule(MemoryStorageModule);
  if (model) builder.overrideProvider(LanguageModel).useValue(model);
  if (clock) builder.overrideProvider(SystemClock).useValue(clock);
  const built = await builder.compile();
  const app = built.createNestApplication<NestExpressApplication>({
    logger: ['fatal'],
    forceCloseConnections: true,
  });
  configure(app);
  await app.listen(0, '127.0.0.1');
  const desk = { url: await app.getUrl(), app };
  open.add(desk);
  return desk;
}

/** Closes one desk, as a process that is told to stop does. */
export async function close(desk: ServedDesk): Promise<void> {
  open.delete(desk);
  await desk.app.close();
}

export function headersOf(user: string): Record<string, string> {
  return { authorization: `Bearer demo-${user}`, 'content-type': 'application/json' };
}

export function ask(
  desk: ServedDesk,
  user: string,
  body: unknown,
  path = '/chat',
): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return fetch(`${desk.url}${path}`, { method: 'POST', headers: headersOf(user), body: text });
}

/** The events of a stream that has ended. */
export function eventsIn(stream: string): LoopEvent[] {
  const data = stream.split('\n').filter((line) => line.startsWith('data: '));
  return data.map((line) => JSON.parse(line.slice('data: '.length)) as LoopEvent);
}

/** Asks and reads to the end. */
export async function eventsOf(
  desk: ServedDesk,
  user: string,
  message: string,
): Promise<LoopEvent[]> {
  const response = await ask(desk, user, { message });
  if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
  return eventsIn(await response.text());
}

export function ofType<Type extends LoopEvent['type']>(
  events: readonly LoopEvent[],
  type: Type,
): Extract<LoopEvent, { type: Type }>[] {
  return events.filter((event): event is Extract<LoopEvent, { type: Type }> => event.type === type);
}
