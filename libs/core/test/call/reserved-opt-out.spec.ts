import { describe, expect, it } from '@jest/globals';
import { LlmTool, ToolParam, ToolProvider } from '@toolloop/core';
import { AuditError } from '@toolloop/core/audit';
import { AuditStore, MemoryAuditStore } from '@toolloop/core/stores';
import { Bench } from './bench.js';

const REASON = 'Operators move customers between tenants.';
const moved: string[] = [];

@ToolProvider({ namespace: 'ops' })
class OpsTools {
  @LlmTool({
    description: 'Moves.',
    effect: 'state_change',
    reveal: 'all',
    allowReserved: { arguments: ['tenantId'], reason: REASON },
  })
  move(
    @ToolParam('tenantId', { description: 'Where to', type: 'string' }) tenantId: string,
  ): string {
    moved.push(tenantId);
    return tenantId;
  }

  @LlmTool({ description: 'Reads.', effect: 'read_only', reveal: 'all' })
  read(): string {
    return 'read';
  }
}

/** Keeps everything but what a tool opted out of. */
class NarrowStore extends MemoryAuditStore {
  override append(
    ...[tenant, build]: Parameters<MemoryAuditStore['append']>
  ): void | Promise<void> {
    return super.append(tenant, (head) => {
      const entry = build(head);
      if (entry.kind === 'opt-out') throw new AuditError('full');
      return entry;
    });
  }
}

const options = { audit: { key: 'k'.repeat(32) } };

async function kindsFor(bench: Bench, tenant: string): Promise<string[]> {
  const entries = await bench.module.get(AuditStore).read(tenant, { from: 1, limit: 20 });
  return entries.map(({ kind }) => kind);
}

describe('invariant 4: a tool that reserved names do not hold for', () => {
  it('invariant 4: has each of its calls in the audit, with the names and the reason', async () => {
    const bench = await Bench.start({ providers: [OpsTools], options });
    await bench.run().exec('ops__move', { tenantId: 'globex' });
    const entries = await bench.module.get(AuditStore).read('acme', { from: 1, limit: 20 });
    expect(entries).toMatchObject([
      {
        kind: 'opt-out',
        declaredId: 'ops__move',
        actorId: 'ada',
        toolCallId: 'call_1',
        names: ['tenantId'],
        reason: REASON,
      },
      { kind: 'decision' },
      { kind: 'outcome' },
    ]);
  });

  it('invariant 4: is in the audit of the tenant for whom it is called, and no other tool is', async () => {
    const bench = await Bench.start({ providers: [OpsTools], options });
    await bench.run({ tenant: 'globex' }).exec('ops__move', { tenantId: 'acme' });
    await bench.run().exec('ops__read');
    expect(await kindsFor(bench, 'globex')).toEqual(['opt-out', 'decision', 'outcome']);
    expect(await kindsFor(bench, 'acme')).toEqual(['decision', 'outcome']);
  });

  it('invariant 4: still takes no other reserved name', async () => {
    const bench = await Bench.start({ providers: [OpsTools], options });
    const { record } = await bench.run().exec('ops__move', { tenantId: 'globex', actor: 'root' });
    expect(record.error?.code).toBe('tenant_override');
  });

  it('invariant 4: is not run where that cannot be kept', async () => {
    moved.length = 0;
    const bench = await Bench.start({
      providers: [OpsTools],
      options,
      ports: [{ provide: AuditStore, useClass: NarrowStore }],
    });
    const { record, unavailable } = await bench.run().exec('ops__move', { tenantId: 'globex' });
    expect([record.status, unavailable, moved]).toEqual(['waiting', expect.any(AuditError), []]);
  });
});
