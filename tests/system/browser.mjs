// browser.mjs: Debian's Chromium on the web pages of a lab, driven by playwright-core. Whatever a page may not do is collected:
// errors, what its policy forbids, and requests to any other place than the supervisor.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { chromium } from 'playwright-core';
import { nodeModules } from './lab.mjs';

const program = process.env.LAB_CHROMIUM ?? '/usr/bin/chromium';

export const phone = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };
export const desktop = { viewport: { width: 1280, height: 850 } };

export class Browser {
    problems = [];

    async start(flags = []) {
        assert.ok(fs.existsSync(program), `${program} is missing: apt install chromium`);
        this.browser = await chromium.launch({ executablePath: program, args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic',
            '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', ...flags] });
    }

    // A browser profile of its own, watched.
    async context(options = desktop) {
        const context = await this.browser.newContext({ colorScheme: 'light', reducedMotion: 'reduce', ...options });
        context.setDefaultTimeout(20000);
        context.on('page', page => {
            page.on('pageerror', error => this.problems.push(`${page.url()}: ${error}`));
            page.on('console', message => {
                // What a refused request leaves there is the test's business.
                if (message.type() === 'error' && !/Failed to load resource|net::ERR_/.test(message.text()))
                    this.problems.push(`${page.url()}: ${message.text()}`);
            });
        });
        context.on('request', request => {
            if (!/^(http:\/\/(127\.0\.0\.1|localhost|[0-9a-z-]+\.localhost):\d+\/|data:|blob:)/.test(request.url()))
                this.problems.push(`asked for ${request.url()}`);
        });
        return context;
    }

    // A page that sandboxctl web has signed in and brought to WORDS (a run, a session, or nothing: the board).
    async signIn(lab, context, words = []) {
        const page = await context.newPage();
        const { url } = await lab.ctlJson(['web', ...words]);
        await page.goto(url);
        await page.waitForURL(/\/w\//);
        return page;
    }

    async stop() {
        await this.browser?.close();
    }
}

// Kept as output of the test, for people to look at.
export async function screenshot(page, name, options = {}) {
    if (!process.env.LAB_OUTPUT)
        return;
    const folder = path.join(process.env.LAB_OUTPUT, 'screenshots');
    fs.mkdirSync(folder, { recursive: true });
    await page.screenshot({ path: path.join(folder, `${name}.png`), ...options });
}

// What axe-core finds that keeps people out.
export async function checkAccessible(page, what) {
    if (!await page.evaluate(() => Boolean(window.axe)))
        await page.evaluate(fs.readFileSync(path.join(nodeModules, 'axe-core/axe.min.js'), 'utf8'));
    const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
    const serious = found.violations.filter(one => ['serious', 'critical'].includes(one.impact))
        .map(one => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(node => `${node.html.slice(0, 160)} ${node.failureSummary.slice(0, 200)}`).join(' | ')}`);
    assert.deepEqual(serious, [], what);
}
