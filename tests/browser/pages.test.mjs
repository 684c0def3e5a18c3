// The pages in Chromium: cookies between sites, forms, framing, keyboard, narrow screens and colors.

import assert from "node:assert/strict";
import { after, afterEach, before, beforeEach, test } from "node:test";

import { chromium } from "playwright-core";

import { startOtherSite, startRegistry } from "./site.mjs";

let registry;
let browser;
let context;
let page;

before(async () => {
  registry = await startRegistry();
  // Chromium has no sandbox for the user root of containers.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  browser = await chromium.launch({ executablePath, args });
});

after(async () => {
  await browser?.close();
  await registry?.stop();
});

beforeEach(async () => {
  context = await browser.newContext();
  page = await context.newPage();
});

afterEach(async () => {
  await context.close();
});

const address = (index) => `${registry.url}/approvals/${registry.requests[index]}`;

async function signIn(path = "/approvals") {
  await page.goto(`${registry.url}${path}`);
  await page.locator('a[href^="/sign-in/oidc"]').click();
  await page.waitForURL(`${registry.url}${path}`);
}

// Sends a form, and waits for the page of the response.
async function submit(button) {
  const loaded = page.waitForEvent("load");
  await button.click();
  await loaded;
}

// The state on the page of a request.
const state = () => page.locator("dt:text-is('State') + dd").textContent();

// Runs a check with a page of another site.
async function withOtherSite(content, check) {
  const site = await startOtherSite(content);
  try {
    await check(site.url);
  } finally {
    await site.stop();
  }
}

test("sign-in with the identity provider returns to the request", async () => {
  await signIn(`/approvals/${registry.requests[0]}`);
  assert.equal(await state(), "pending");
  const cookies = await context.cookies(registry.url);
  const session = cookies.find((cookie) => cookie.name === "registry-session");
  assert.deepEqual([session.httpOnly, session.sameSite], [true, "Strict"]);
  assert.equal(cookies.length, 1, "the cookie of the pending sign-in is deleted");
});

test("buttons approve and deny a request", async () => {
  await signIn(`/approvals/${registry.requests[0]}`);
  await submit(page.locator("button[value=approve]"));
  assert.equal(await state(), "approved");
  await page.goto(address(1));
  const reason = page.locator("#reason");
  await page.locator("button[value=deny]").click();
  assert.equal(await reason.evaluate((field) => field.validity.valueMissing), true);
  assert.equal(await state(), "pending");
  await reason.fill("duplicate invoice");
  await submit(page.locator("button[value=deny]"));
  assert.equal(await state(), "denied");
});

test("list decides about the selected request only", async () => {
  await signIn();
  await page.locator(`[id="request-${registry.requests[2]}"]`).check();
  await submit(page.locator("button[value=approve]"));
  await page.goto(address(2));
  assert.equal(await state(), "approved");
  await page.goto(address(3));
  assert.equal(await state(), "pending");
});

test("link of another site opens the request", async () => {
  await signIn();
  await withOtherSite(`<a href="${address(3)}">link</a>`, async (url) => {
    await page.goto(url);
    await page.locator("a").click();
    await page.locator("dl").waitFor();
    assert.equal(page.url(), address(3));
  });
});

test("form of another site changes nothing", async () => {
  await signIn(`/approvals/${registry.requests[3]}`);
  // Even a stolen token does not help.
  const token = await page.locator("main input[name=form]").first().inputValue();
  const form = `<form method="post" action="${address(3)}"><input name="form" value="${token}">
    <button name="choice" value="approve">send</button></form>`;
  await withOtherSite(form, async (url) => {
    await page.goto(url);
    const answered = page.waitForResponse((response) => response.request().method() === "POST");
    await page.locator("button").click();
    assert.equal((await answered).status(), 403);
  });
  await page.goto(address(3));
  assert.equal(await state(), "pending");
});

test("other site cannot frame the pages", async () => {
  await withOtherSite(`<iframe src="${registry.url}/sign-in"></iframe>`, async (url) => {
    await page.goto(url);
    const [, frame] = page.frames();
    assert.equal(await frame.locator("#token").count(), 0);
  });
});

test("sign-out ends the session", async () => {
  await signIn();
  await page.locator("header button").click();
  await page.waitForURL(`${registry.url}/sign-in`);
  await page.goto(`${registry.url}/approvals`);
  assert.equal(page.url(), `${registry.url}/sign-in`);
});

test("policy of the page blocks injected scripts", async () => {
  await page.goto(`${registry.url}/sign-in`);
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    return window.ran === true;
  });
  assert.equal(ran, false);
});

test("sign-in ignores a session id that an attacker has set", async () => {
  const name = "registry-session";
  const fixed = { name, value: "A".repeat(43), url: registry.url };
  await context.addCookies([fixed]);
  await signIn();
  const sessions = (await context.cookies(registry.url)).filter((cookie) => cookie.name === name);
  assert.equal(sessions.length, 1);
  assert.notEqual(sessions[0].value, fixed.value);
  const attacker = await browser.newContext();
  try {
    await attacker.addCookies([fixed]);
    const other = await attacker.newPage();
    await other.goto(`${registry.url}/approvals`);
    assert.equal(other.url(), `${registry.url}/sign-in`);
  } finally {
    await attacker.close();
  }
  // A cookie for a longer path comes first, and must not replace the session.
  const domain = new URL(registry.url).hostname;
  await context.addCookies([{ name, value: "B".repeat(43), domain, path: "/approvals" }]);
  await page.goto(`${registry.url}/approvals`);
  assert.equal(page.url(), `${registry.url}/sign-in`);
});

test("displayed values are text", async () => {
  // The number of places that show the hostile text.
  const shown = async () => {
    const elements = await page.locator("img, script, [onerror]").count();
    const ran = await page.evaluate(() => window.ran === true);
    assert.deepEqual([elements, ran], [0, false], page.url());
    return (await page.locator("main").innerText()).split(registry.hostile).length - 1;
  };
  await signIn();
  assert.equal(await shown(), 2, "subject and agent in the list");
  await page.goto(address(4));
  assert.equal(await shown(), 4, "subject, agent, arguments and context");
  await page.locator("#reason").fill(registry.hostile);
  await submit(page.locator("button[value=deny]"));
  assert.equal(await state(), "denied");
  assert.equal(await shown(), 5, "and the reason");
});

test("pages fit 320 pixels", async () => {
  await page.setViewportSize({ width: 320, height: 640 });
  await signIn();
  for (const url of [`${registry.url}/approvals`, address(3), `${registry.url}/sign-in`]) {
    await page.goto(url);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 320, `${url}: ${width}`);
  }
});

test("fields have labels and pages have one first heading", async () => {
  await signIn();
  for (const url of [`${registry.url}/approvals`, address(3), `${registry.url}/sign-in`]) {
    await page.goto(url);
    const fields = page.locator("input:not([type=hidden]), textarea");
    const unlabeled = await fields.evaluateAll((all) => all.filter((one) => !one.labels.length).length);
    assert.equal(unlabeled, 0, url);
    assert.equal(await page.locator("h1").count(), 1, url);
    const levels = await page
      .locator("h1, h2, h3")
      .evaluateAll((all) => all.map((one) => Number(one.tagName.slice(1))));
    const isOrdered = levels.every((level, i) => i === 0 || level <= levels[i - 1] + 1);
    assert.ok(isOrdered, `${url}: ${levels}`);
  }
});

test("keyboard reaches the content and the buttons in order", async () => {
  await signIn(`/approvals/${registry.requests[3]}`);
  const focused = [];
  for (let step = 0; step < 8; step += 1) {
    await page.keyboard.press("Tab");
    focused.push(
      await page.evaluate(() => {
        const { tagName, id, value } = document.activeElement;
        return id || value || tagName;
      }),
    );
  }
  const order = ["PRE", "approve", "reason", "deny"].map((name) => focused.indexOf(name));
  assert.ok(order.every((place, i) => place >= 0 && (i === 0 || place > order[i - 1])), `${focused}`);
  await page.goto(address(3));
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForURL(`${address(3)}#main`);
});

test("colors follow the preferred scheme with enough contrast", async () => {
  const luminance = (color) => {
    const parts = color.match(/\d+/g).slice(0, 3).map((part) => Number(part) / 255);
    const linear = parts.map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const backgrounds = [];
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.goto(`${registry.url}/sign-in`);
    const [text, link, background] = await page.evaluate(() => {
      const { color, backgroundColor } = getComputedStyle(document.body);
      return [color, getComputedStyle(document.querySelector("a.button")).color, backgroundColor];
    });
    backgrounds.push(background);
    for (const front of [text, link]) {
      const [low, high] = [luminance(front), luminance(background)].sort((a, b) => a - b);
      assert.ok((high + 0.05) / (low + 0.05) >= 4.5, `${colorScheme}: ${front} on ${background}`);
    }
  }
  assert.notEqual(backgrounds[0], backgrounds[1]);
});
