import { describe, expect, it } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { settingsFrom } from '../../src/settings.js';
import { auditKeyOf, placeOf, storageOf } from '../../src/storage.module.js';
import { failureOf } from '../../src/welcome.js';

const silent = (): void => undefined;

describe('the settings', () => {
  it('need no environment', () => {
    expect(settingsFrom({})).toEqual({ port: 3000, allowedHosts: [], allowedOrigins: [] });
  });

  it('name a model where there is a key or a server', () => {
    const { openai } = settingsFrom({
      OPENAI_BASE_URL: 'http://127.0.0.1:8080/v1',
      TOOLLOOP_MODEL: 'qwen3',
    });
    expect(openai).toEqual({ model: 'qwen3', baseURL: 'http://127.0.0.1:8080/v1' });
    expect(settingsFrom({ OPENAI_API_KEY: 'k' }).openai).toEqual({
      model: 'gpt-5-mini',
      apiKey: 'k',
    });
  });

  it('name a webhook where there is an address, which needs a secret', () => {
    const webhook = { url: 'https://hooks.example/', secret: 'whsec_x' };
    expect(
      settingsFrom({ WEBHOOK_URL: webhook.url, WEBHOOK_SECRET: webhook.secret }).webhook,
    ).toEqual(webhook);
    expect(() => settingsFrom({ WEBHOOK_URL: webhook.url })).toThrow(/Set WEBHOOK_SECRET/);
  });

  it('sign the audit with the key there is', () => {
    const auditKey = 'k'.repeat(32);
    expect(settingsFrom({ AUDIT_KEY: auditKey })).toMatchObject({ auditKey });
    expect(auditKeyOf(settingsFrom({ AUDIT_KEY: auditKey }))).toBe(auditKey);
  });

  it('sign it with a random one, another at each start, where there is none', () => {
    Logger.overrideLogger(false);
    const keys = [1, 2].map(() => auditKeyOf(settingsFrom({ AUDIT_KEY: '' })));
    expect(keys[0]).toHaveLength(32);
    expect(keys[0]).not.toEqual(keys[1]);
  });

  it.each<[string, NodeJS.ProcessEnv, RegExp]>([
    [
      'on a server',
      { DATABASE_URL: 'postgres://db/desk' },
      /every desk there signs the same chain.*Set AUDIT_KEY .*to the same for every desk\.$/,
    ],
    ['in a folder', { DATA_DIR: './data' }, /The audit in DATA_DIR outlives it.*Set AUDIT_KEY/],
  ])('say what comes of a random key for an audit that is kept %s', (_, env, told) => {
    const warnings: unknown[] = [];
    Logger.overrideLogger({
      log: silent,
      error: silent,
      warn: (message: unknown) => warnings.push(message),
    });
    auditKeyOf(settingsFrom(env));
    auditKeyOf(settingsFrom({ ...env, AUDIT_KEY: 'k'.repeat(32) }));
    Logger.overrideLogger(false);
    expect(warnings).toEqual([expect.stringMatching(told)]);
  });

  it('say nothing of a random key for an audit that ends with the process', () => {
    const warnings: unknown[] = [];
    Logger.overrideLogger({
      log: silent,
      error: silent,
      warn: (message: unknown) => warnings.push(message),
    });
    auditKeyOf(settingsFrom({}));
    Logger.overrideLogger(false);
    expect(warnings).toEqual([]);
  });

  it('keep things on a server before a folder, and in memory where there is neither', () => {
    const url = 'postgres://desk:hidden@db/desk';
    const said = [
      { DATABASE_URL: url, DATA_DIR: './data' },
      { DATA_DIR: './data' },
      { DATABASE_URL: '', DATA_DIR: '' },
    ].map(settingsFrom);
    expect(said.map(storageOf).map(({ retention: _retention, ...place }) => place)).toEqual([
      { url },
      { dataDir: './data' },
      { memory: true },
    ]);
    expect(said.map(placeOf).join()).not.toContain('hidden');
  });

  it('read lists', () => {
    expect(
      settingsFrom({ ALLOWED_HOSTS: ' Desk.Example.com, b:80,[::1]:3000' }).allowedHosts,
    ).toEqual(['desk.example.com', 'b:80', '[::1]:3000']);
    expect(settingsFrom({ ALLOWED_ORIGINS: 'https://App.example.com' }).allowedOrigins).toEqual([
      'https://app.example.com',
    ]);
  });

  it.each<[NodeJS.ProcessEnv, string]>([
    [
      { OPENAI_BASE_URL: 'notaurl' },
      'OPENAI_BASE_URL is "notaurl"; it must be an address such as http://127.0.0.1:11434/v1.',
    ],
    [
      { OPENAI_BASE_URL: 'ftp://models' },
      'OPENAI_BASE_URL is "ftp://models"; it must be an address such as http://127.0.0.1:11434/v1.',
    ],
    [
      { TOOLLOOP_MODEL: 'qwen3', OPENAI_API_KEY: '' },
      'TOOLLOOP_MODEL is "qwen3", and nothing says where that model is. Set OPENAI_API_KEY or',
    ],
    [
      { ALLOWED_HOSTS: 'desk.example.com,http://x y' },
      'ALLOWED_HOSTS contains "http://x y"; each entry must be a host such as desk.example.com',
    ],
    [{ ALLOWED_HOSTS: 'desk.example.com/chat' }, 'ALLOWED_HOSTS contains "desk.example.com/chat"'],
    [
      { ALLOWED_ORIGINS: 'app.example.com' },
      'ALLOWED_ORIGINS contains "app.example.com"; each entry must be an origin such as https://app.example.com',
    ],
    [
      { ALLOWED_ORIGINS: 'https://app.example.com/' },
      'ALLOWED_ORIGINS contains "https://app.example.com/"',
    ],
  ])('refuse the environment %j', (env, reason) => {
    expect(() => settingsFrom(env)).toThrow(reason);
  });

  it.each(['x', '-1', '65536', '80.5'])('do not take the port %s', (port) => {
    expect(() => settingsFrom({ PORT: port })).toThrow(
      `PORT is "${port}"; it must be a number from 0 to 65535.`,
    );
  });
});

describe('a port that is taken', () => {
  it('is told in a line', () => {
    const error = Object.assign(new Error('listen EADDRINUSE'), { code: 'EADDRINUSE', port: 3000 });
    expect(failureOf(error)).toBe(
      'Port 3000 is taken. Choose another one, e.g. PORT=3001 npm start',
    );
  });
});
