import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { AppModule } from '../src/app.module.js';

describe('the demo', () => {
  let app: INestApplication;

  beforeAll(async () => {
    const built = await Test.createTestingModule({ imports: [AppModule] }).compile();
    app = await built.createNestApplication({ logger: ['error', 'warn'] }).init();
  });

  afterAll(() => app.close());

  it('boots', () => {
    expect(app.get(AppModule)).toBeInstanceOf(AppModule);
  });
});
