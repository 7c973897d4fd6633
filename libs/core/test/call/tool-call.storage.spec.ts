import { beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { LlmTool, type ToolCallContext, ToolContext, ToolProvider } from '@toolloop/core';
import { Observable, delay, map, of, switchMap } from 'rxjs';
import { ToolCallStorage } from '../../src/call/call-storage.js';
import { Bench } from './bench.js';

const fine = { description: 'Does it.', effect: 'read_only', reveal: 'all' } as const;

/** Too deep to be handed the context. */
@Injectable()
class Repository {
  constructor(readonly storage: ToolCallStorage) {}

  get tenant(): string {
    return this.storage.current()?.tenant ?? 'nobody';
  }
}

@Injectable()
@ToolProvider({ namespace: 'als' })
class AmbientTools {
  constructor(private readonly repository: Repository) {}

  @LlmTool(fine) now(): string {
    return this.repository.tenant;
  }

  @LlmTool(fine) async later(): Promise<string> {
    await wait(1);
    return this.repository.tenant;
  }

  @LlmTool(fine) async *lines(): AsyncGenerator<string> {
    yield this.repository.tenant;
    await wait(1);
    yield this.repository.tenant;
  }

  @LlmTool(fine) stream(): Observable<string> {
    return of(1, 2).pipe(
      delay(1),
      switchMap((value) => of(value).pipe(delay(1))),
      map(() => this.repository.tenant),
    );
  }

  @LlmTool(fine) async streamLater(): Promise<Observable<string>> {
    await wait(1);
    return new Observable((reader) => {
      reader.next(this.repository.tenant);
      reader.complete();
    });
  }

  @LlmTool(fine) async both(@ToolContext() context: ToolCallContext): Promise<string[]> {
    const seen: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      await wait(Math.random() * 3);
      seen.push(
        this.repository.tenant,
        context.tenant,
        String(context.context['tenant']),
        String(context.state.get('tenant')),
      );
    }
    return seen;
  }

  @LlmTool(fine) same(@ToolContext() context: ToolCallContext): boolean {
    return this.repository.storage.current() === context;
  }
}

let bench: Bench;
beforeAll(async () => {
  bench = await Bench.start({ providers: [AmbientTools, Repository] });
});

describe('ToolCallStorage', () => {
  it.each(['now', 'later', 'lines', 'stream', 'streamLater'])(
    'knows the call in the midst of it: %s',
    async (name) => {
      const run = bench.run({ tenant: 'acme' });
      expect((await run.exec(`als__${name}`)).content).toBe('acme');
      const progress = run.events.flatMap((event) =>
        event.type === 'tool-progress' ? [event.value] : [],
      );
      expect(progress.filter((value) => value !== 'acme')).toEqual([]);
    },
  );

  it('holds the very context that the tool is handed', async () => {
    expect((await bench.run().exec('als__same')).content).toBe('true');
  });

  it('knows nothing outside a call', async () => {
    await bench.run().exec('als__now');
    expect(bench.module.get(ToolCallStorage).current()).toBeUndefined();
  });
});

describe('invariant 9: two hundred runs of two tenants, interleaved', () => {
  it('invariant 9: never see each other', async () => {
    const names = ['both', 'later', 'lines', 'stream'];
    const runs = Array.from({ length: 200 }, async (_, index) => {
      const tenant = index % 2 === 0 ? 'acme' : 'globex';
      const run = bench.run({ runId: `run_${index}`, tenant, context: { tenant } });
      run.scope.run.state.set('tenant', tenant);
      const outcomes = await Promise.all(names.map((name) => run.exec(`als__${name}`)));
      return {
        tenant,
        seen: outcomes.map(({ content }) => content),
        events: JSON.stringify(run.events),
      };
    });
    for (const { tenant, seen, events } of await Promise.all(runs)) {
      expect(seen).toEqual([
        JSON.stringify(Array.from({ length: 12 }, () => tenant)),
        tenant,
        tenant,
        tenant,
      ]);
      expect(events).not.toContain(tenant === 'acme' ? 'globex' : 'acme');
    }
  });
});
